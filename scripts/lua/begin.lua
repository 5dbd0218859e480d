-- begin: ask for the right to run an attempt of a firing.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- KEYS[16]  list  the run log of the schedule
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  firing
-- ARGV[5]  owner     a nonce of this call, never reused
-- ARGV[6]  worker    for display
-- ARGV[7]  lease_ms  of the attempt
-- ARGV[8]  once      "1": an attempt whose fate is unknown is not repeated
-- ARGV[9]  keep      length of the run log, 0 none; what this call closes is logged
--
-- Returns  {answer, token, attempt, wait_ms, released}
--          RUN run it; SETTLED, CANCELLED, GONE, UNKNOWN acknowledge the task and do not; BUSY another attempt has a
--          live lease, come back after wait_ms; EARLY not known yet, come back later
-- Resend   the same owner gets its live grant back; a firing that the first call closed answers SETTLED
-- Writes   st, fir, aud, out, meta; due, opn, buf, bf, bfq, evt, the run log when it closes a firing
-- Cost     O(1), and the open list of a schedule with cancel_other
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

local id, owner, worker, lease_ms, once, keep = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8] == "1", tonumber(ARGV[9])
local schedule, generation, _, at_ms = split_firing(id)
local r, firing, released = get_schedule(schedule), get_firing(id), {}

local function close(answer, outcome)
  if at_ms == r.next_ms then advance(r, at_ms, FIRED, 0) end
  end_run(r, id, firing, { outcome = outcome, keep = keep }, KEYS[16])
  close_firing(r, id, firing, outcome, released)
  return { answer, 0, 0, 0, released }
end

-- adopt opens a firing that the store forgot: only the pending one, since
-- raising the mark past it would settle it unseen.
local function adopt()
  if at_ms == 0 or at_ms <= r.high_water_ms or at_ms < r.next_ms then return { "SETTLED", 0, 0, 0, released } end
  if at_ms > r.next_ms then return { "EARLY", 0, 0, 0, released } end
  firing = new_firing(ENQUEUED, at_ms, r.queue)
  open_firing(r, id, firing, now_ms + lease_ms)
end

-- busy_for is how long a live attempt of it, or one to wait for, may go on.
local function busy_for()
  if firing.state == RUNNING and firing.lease_ms > now_ms then return firing.lease_ms - now_ms end
  if overlap_policy(r) ~= CANCEL_OTHER or r.open < 2 then return end
  for _, other_id in ipairs(firing_ids(r, open_list(r))) do
    local other = other_id ~= id and get_firing(other_id)
    if other and other.state == RUNNING and other.lease_ms > now_ms then return other.lease_ms - now_ms end
  end
end

-- Decide.
local function decide()
  if not r or r.generation ~= generation then
    if firing then drop_firing(id) end
    return { "GONE", 0, 0, 0, released }
  end
  local refused = not firing and adopt()
  if refused then return refused end
  if firing.state == BUFFERED then return { "EARLY", 0, 0, 0, released } end
  local running = firing.state == RUNNING
  if running and firing.owner == owner then return { "RUN", firing.token, firing.attempt, 0, released } end
  if running and once and firing.lease_ms <= now_ms then return close("UNKNOWN", "unknown") end
  if has_bit(firing.flags, CANCEL_ASKED) and not (running and firing.lease_ms > now_ms) then
    return close("CANCELLED", "cancelled")
  end
  local wait_ms = busy_for()
  if wait_ms then return { "BUSY", 0, 0, wait_ms, released } end
  firing.state, firing.attempt, firing.token, firing.owner = RUNNING, firing.attempt + 1, grant_tokens(1), owner
  firing.worker, firing.lease_ms, firing.begun_ms = worker, now_ms + lease_ms, now_ms
  put_firing(id, firing, firing.lease_ms + lease_ms)
  if at_ms == r.next_ms then advance(r, at_ms, FIRED, 0) end
  begin_run(r, id, firing)
  return { "RUN", firing.token, firing.attempt, 0, released }
end

-- Apply.
local reply = decide()
write_all()
return reply
