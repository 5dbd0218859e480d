-- settle: close a firing with an outcome that was found, not reported.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- KEYS[16]  list  the run log of the schedule
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  firing
-- ARGV[5]  token    that the audit saw
-- ARGV[6]  outcome  succeeded, failed, lost, cancelled, unknown
-- ARGV[7]  keep     length of the run log, 0 none
-- ARGV[8]  error
--
-- Returns  {answer, redrives, released}
--          OK; ALREADY settled before, or its schedule was deleted, which drops it; STALE it moved on since the audit, leave it
-- Resend   ALREADY; the auditor enqueues what the first call released
-- Writes   st, fir, aud, opn, buf, due, out, meta, evt, the run log; bf, bfq for a firing of a backfill
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/firingid.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/event.lua
-- @include lib/count.lua
-- @include lib/state.lua
-- @include lib/verdict.lua
-- @include lib/open.lua
-- @include lib/run.lua
-- @include lib/backfill.lua
-- @include lib/settle.lua
-- @include lib/write.lua

local id, token, outcome = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local run = { outcome = outcome, keep = tonumber(ARGV[7]), error = ARGV[8] }
local released = {}

-- Decide.
local schedule, generation, _, at_ms = split_firing(id)
local r, firing = get_schedule(schedule), get_firing(id)
if r and r.generation ~= generation then r = false end
if not firing or not r then
  if firing then drop_firing(id) end
  write_all()
  return { "ALREADY", 0, released }
end
local lives = firing.state == RUNNING and firing.lease_ms > now_ms
if firing.token ~= token or lives then return { "STALE", firing.redrives, released } end
if at_ms == r.next_ms then advance(r, at_ms, FIRED, 0) end
end_run(r, id, firing, run, KEYS[16])
close_firing(r, id, firing, outcome, released)

-- Apply.
write_all()
runs.write()
return { "OK", firing.redrives, released }
