-- Beginning attempts. A call c has the fields that begin.lua reads from ARGV:
-- id, manual, at_ms, owner, worker, lease_ms, keep, run_log, and released, to which
-- what it releases is added.
local function answer(c, word, wait_ms) return { word, 0, 0, wait_ms or 0, c.released } end

local function close(c, r, firing, word, outcome)
  if c.at_ms == r.next_ms then advance(r, c.at_ms, FIRED, 0) end
  local by_hand = outcome == "cancelled" and has_bit(firing.flags, runs.BY_HAND)
  end_run(r, c.id, firing, { outcome = outcome, keep = c.keep, error = by_hand and "cancelled by an operator" }, c.run_log)
  close_firing(r, c.id, firing, outcome, c.released)
  return answer(c, word)
end

-- ENDED_UNRUN are the answers for what ended with such outcomes: its task must
-- not count as one that ran, however often it is delivered.
local ENDED_UNRUN = { cancelled = "CANCELLED", unknown = "UNKNOWN" }

-- adopt opens a firing that the store forgot: only the pending one, since
-- raising the mark past it would settle it unseen, and only once it is due, since
-- nobody enqueued it before: such a task is forged. It returns the firing, or
-- false and why not.
local function adopt(c, r)
  if c.at_ms == 0 or c.at_ms <= r.high_water_ms or c.at_ms < r.next_ms then
    return false, ENDED_UNRUN[runs.last_outcome(r, c.id)] or "SETTLED"
  end
  if c.at_ms > r.next_ms or c.at_ms > now_ms then return false, "EARLY" end
  local firing = new_firing(ENQUEUED, c.at_ms, r.queue)
  open_firing(r, c.id, firing, now_ms + c.lease_ms)
  return firing
end

-- waited_for lists what must end before a firing runs. A trigger waits for
-- exactly what it asked to end, whatever the schedule's policy is.
local function waited_for(c, r, firing)
  if c.manual then return extras.waits(firing) end
  return overlap_policy(r) == CANCEL_OTHER and open_list(r) or ""
end

-- busy_for is how long a live attempt of it, or one to wait for, may go on.
local function busy_for(c, r, firing)
  if firing.state == RUNNING and firing.lease_ms > now_ms then return firing.lease_ms - now_ms end
  if r.open < 2 then return end
  for _, other_id in ipairs(firing_ids(r, waited_for(c, r, firing))) do
    local other = other_id ~= c.id and get_firing(other_id)
    if other and other.state == RUNNING and other.lease_ms > now_ms then return other.lease_ms - now_ms end
  end
end

local function start(c, r, firing)
  firing.state, firing.attempt, firing.token, firing.owner = RUNNING, firing.attempt + 1, tokens.grant(1), c.owner
  firing.worker, firing.lease_ms, firing.begun_ms = c.worker, now_ms + c.lease_ms, now_ms
  if has_bit(firing.flags, TASK_OWED) then firing.flags = firing.flags - TASK_OWED end
  put_firing(c.id, firing, firing.lease_ms + c.lease_ms)
  if c.at_ms == r.next_ms then advance(r, c.at_ms, FIRED, 0) end
  runs.begin(r, c.id, firing)
  return { "RUN", firing.token, firing.attempt, 0, c.released }
end
