-- finish: report the ends of attempts. Each call stands for itself, as if it came alone, in this order.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- KEYS[16..]  list  the run log of the schedule of each call
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4..]  ten for each call: firing; token of the attempt; outcome: succeeded, failed, retrying, cancelled, or
--          handed_back, when nothing ran; retry_ms, with retrying: when the auditor may look, at the earliest, from
--          now; started_ms on the worker's clock; duration_ms; attempt; worker; keep, the length of the run log,
--          0 none; error
--
-- Returns  for each call {answer, released}
--          OK; DISABLED as OK, and the breaker disabled the schedule; ALREADY settled before, or its schedule was
--          deleted; STALE another attempt owns it. The success of an attempt that the shard forgot is OK
-- Resend   ALREADY, with the same released firing while nobody enqueued it; a retry or hand-back is counted once
-- Writes   st, fir, aud, opn, buf, due, out, meta, evt, the run log; bf, bfq for a firing of a backfill
-- Cost     O(calls)
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
-- @include lib/forgotten.lua
-- @include lib/write.lua

local calls, schedule_ids, wanted = {}, {}, {}
for i = 4, #ARGV, 10 do
  local schedule, generation, _, at_ms = split_firing(ARGV[i])
  calls[#calls + 1] = {
    id = ARGV[i], schedule = schedule, generation = generation, at_ms = at_ms, token = tonumber(ARGV[i + 1]), outcome = ARGV[i + 2],
    retry_ms = tonumber(ARGV[i + 3]), started_ms = tonumber(ARGV[i + 4]), duration_ms = tonumber(ARGV[i + 5]),
    attempt = tonumber(ARGV[i + 6]), worker = ARGV[i + 7], keep = tonumber(ARGV[i + 8]), error = ARGV[i + 9],
    run_log = KEYS[16 + #calls], released = {},
  }
  schedule_ids[#calls], wanted[#calls] = schedule, ARGV[i]
end

-- put_back ends the attempt and leaves the firing open.
local function put_back(c, firing, state, audit_ms)
  firing.state, firing.lease_ms, firing.owner = state, 0, ""
  put_firing(c.id, firing, audit_ms)
  return "OK"
end

local function decide(c)
  local r, firing = get_schedule(c.schedule), get_firing(c.id)
  if r and r.generation ~= c.generation then r = false end
  if r then firing = remember(c, r, firing) end
  if not firing or not r then
    if firing then drop_firing(c.id) end
    if r then repeat_release(r, c.released) end
    return "ALREADY"
  end
  if c.token == 0 or firing.token ~= c.token then return "STALE" end
  local stays_open = c.outcome == "retrying" or c.outcome == "handed_back"
  if stays_open and firing.state ~= RUNNING then return "OK" end
  if c.outcome == "handed_back" then
    runs.unbegin(r, c.id, firing)
    firing.attempt = firing.attempt - 1
    return put_back(c, firing, ENQUEUED, now_ms)
  end
  end_run(r, c.id, firing, c, c.run_log)
  if c.outcome == "retrying" then return put_back(c, firing, WAITING, now_ms + c.retry_ms) end
  return close_firing(r, c.id, firing, c.outcome, c.released) and "DISABLED" or "OK"
end

-- Decide.
load_schedules(schedule_ids)
load_firings(wanted)
local answers = {}
for i, c in ipairs(calls) do answers[i] = { decide(c), c.released } end

-- Apply.
write_all()
runs.write()
return answers
