-- finish: report the end of an attempt.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- KEYS[16]  list  the run log of the schedule
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]   firing
-- ARGV[5]   token         of the attempt
-- ARGV[6]   outcome       succeeded, failed, retrying, cancelled; handed_back: nothing ran
-- ARGV[7]   retry_ms      with retrying: when the auditor may look, at the earliest, from now
-- ARGV[8]   started_ms    on the worker's clock
-- ARGV[9]   duration_ms
-- ARGV[10]  attempt
-- ARGV[11]  worker
-- ARGV[12]  keep          length of the run log, 0 none
-- ARGV[13]  error
--
-- Returns  {answer, released}
--          OK; DISABLED as OK, and the breaker disabled the schedule; ALREADY settled before, or its schedule was deleted; STALE another attempt owns it
-- Resend   ALREADY, with the same released firing while nobody enqueued it; a retry or hand-back is counted once
-- Writes   st, fir, aud, opn, buf, due, out, meta, evt, the run log; bf, bfq for a firing of a backfill
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
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
local schedule, generation = split_firing(id)
local r, firing, released = get_schedule(schedule), get_firing(id), {}
if r and r.generation ~= generation then r = false end
local run = {
  outcome = outcome, started_ms = tonumber(ARGV[8]), duration_ms = tonumber(ARGV[9]),
  attempt = tonumber(ARGV[10]), worker = ARGV[11], keep = tonumber(ARGV[12]), error = ARGV[13],
}

-- put_back ends the attempt and leaves the firing open.
local function put_back(state, audit_ms)
  firing.state, firing.lease_ms, firing.owner = state, 0, ""
  put_firing(id, firing, audit_ms)
  return "OK"
end

-- Decide.
local function decide()
  if not firing or not r then
    if firing then drop_firing(id) end
    if r then repeat_release(r, released) end
    return "ALREADY"
  end
  if token == 0 or firing.token ~= token then return "STALE" end
  local stays_open = outcome == "retrying" or outcome == "handed_back"
  if stays_open and firing.state ~= RUNNING then return "OK" end
  if outcome == "handed_back" then
    unbegin_run(r, id, firing)
    firing.attempt = firing.attempt - 1
    return put_back(ENQUEUED, now_ms)
  end
  end_run(r, id, firing, run, KEYS[16])
  if outcome == "retrying" then return put_back(WAITING, now_ms + tonumber(ARGV[7])) end
  return close_firing(r, id, firing, outcome, released) and "DISABLED" or "OK"
end

-- Apply.
local answer = decide()
write_all()
return { answer, released }
