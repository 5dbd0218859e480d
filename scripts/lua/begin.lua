-- begin: ask for the right to run attempts of firings. Each call stands for itself, as if it came alone, in this order.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- KEYS[16..]  list  the run log of the schedule of each call
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4..]  six for each call: firing; owner, a nonce of the call, never reused; worker, for display; lease_ms of the
--          attempt; once, "1": an attempt whose fate is unknown is not repeated; keep, the length of the run log,
--          0 none: what the call closes is logged
--
-- Returns  for each call {answer, token, attempt, wait_ms, released}
--          RUN run it; SETTLED acknowledge the task and do not; UNKNOWN archive it; CANCELLED, GONE delete it; BUSY another
--          attempt has a live lease, come back after wait_ms; EARLY not known or not due yet, come back later
-- Resend   the same owner gets its live grant back; what the first call cancelled or closed as unknown answers the same
--          until another run of the schedule ends, and then SETTLED
-- Writes   st, fir, aud, out, meta; due, opn, buf, bf, bfq, evt, the run log when it closes a firing
-- Cost     O(calls), and the open lists of schedules with cancel_other
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
-- @include lib/token.lua
-- @include lib/verdict.lua
-- @include lib/open.lua
-- @include lib/run.lua
-- @include lib/backfill.lua
-- @include lib/settle.lua
-- @include lib/write.lua
-- @include lib/attempt.lua

local calls, schedule_ids, wanted = {}, {}, {}
for i = 4, #ARGV, 6 do
  local c = { id = ARGV[i], owner = ARGV[i + 1], worker = ARGV[i + 2], lease_ms = tonumber(ARGV[i + 3]),
    once = ARGV[i + 4] == "1", keep = tonumber(ARGV[i + 5]), run_log = KEYS[16 + #calls] }
  local schedule, generation, key, at_ms = split_firing(c.id)
  c.schedule, c.generation, c.at_ms, c.released = schedule, generation, at_ms, {}
  c.manual = string.sub(key or "", 1, 1) == "m"
  calls[#calls + 1] = c
  schedule_ids[#calls], wanted[#calls] = c.schedule, c.id
end

local function decide(c)
  local r, firing, refused = get_schedule(c.schedule), get_firing(c.id), nil
  if not r or r.generation ~= c.generation then
    if firing then drop_firing(c.id) end
    return answer(c, "GONE")
  end
  if not firing then firing, refused = adopt(c, r) end
  if refused then return answer(c, refused) end
  if firing.state == BUFFERED then return answer(c, "EARLY") end
  local running = firing.state == RUNNING
  local live = running and firing.lease_ms > now_ms
  if running and firing.owner == c.owner then return { "RUN", firing.token, firing.attempt, 0, c.released } end
  if running and c.once and not live then return close(c, r, firing, "UNKNOWN", "unknown") end
  if has_bit(firing.flags, CANCEL_ASKED) and not live then return close(c, r, firing, "CANCELLED", "cancelled") end
  local wait_ms = busy_for(c, r, firing)
  if wait_ms then return answer(c, "BUSY", wait_ms) end
  return start(c, r, firing)
end

-- Decide.
load_schedules(schedule_ids)
load_firings(wanted)
local answers = {}
for i, c in ipairs(calls) do answers[i] = decide(c) end

-- Apply.
write_all()
runs.write()
return answers
