-- Closing firings, and what follows from it: buffered ones come free, failures
-- disable the schedule, a schedule with a delay gets its next time.

-- count_failure is the breaker; true says that it disabled the schedule.
local function count_failure(r)
  with_cold(r)
  r.failures = r.failures + 1
  change(r)
  local tripped = r.state == PROBING or (r.state == ACTIVE and r.max_failures > 0 and r.failures >= r.max_failures)
  if not tripped then return false end
  promise(r)
  set_state(r, DISABLED)
  r.since_ms, r.until_ms = now_ms, r.cool_down_ms > 0 and now_ms + r.cool_down_ms or 0
  place(r)
  note_disabled(r)
  r.detail = string.format("%.0f failures in a row", r.failures)
  return true
end

-- with_delay says that the schedule fires a delay after its last run ended.
local function with_delay(r) return has_bit(r.policy, HAS_DELAY) end

local function limit_reached(r) return with_cold(r).limit > 0 and r.fired >= r.limit end

-- await_delay gives a schedule with a delay its next time when nothing is open
-- any more.
local function await_delay(r)
  if not with_delay(r) or r.next_ms ~= 0 or r.open > 0 or r.state == COMPLETED then return end
  with_cold(r)
  r.next_ms, r.not_before_ms = math.max(now_ms + r.delay_ms, r.high_water_ms + 1), 0
  if (r.ends_ms > 0 and r.next_ms >= r.ends_ms) or limit_reached(r) then
    r.next_ms = 0
    if r.state ~= PAUSED and r.state ~= DISABLED then set_state(r, COMPLETED) end
  end
end

-- resume lets a paused or disabled schedule go on.
local function resume(r)
  with_cold(r).until_ms = 0
  set_state(r, (r.next_ms > 0 or with_delay(r)) and ACTIVE or COMPLETED)
end

-- withdraw is the only code that removes an open firing.
local function withdraw(r, id, firing)
  drop_firing(id)
  if firing.state == BUFFERED then
    set_buffer_list(r, remove_item(buffer_list(r), item_of(r, id)))
    set_buffered(r, math.max(0, r.buffered - 1))
  else
    r.open = math.max(0, r.open - 1)
    if overlap_policy(r) ~= ALLOW then set_open_list(r, remove_item(open_list(r), item_of(r, id))) end
  end
  change(r)
end

-- follow does what is due when something was closed.
local function follow(r, released)
  release(r, released)
  await_delay(r)
  if r.token == NO_TOKEN then place(r) end
end

-- close_firing settles a firing of r. True says that the breaker disabled the
-- schedule.
local function close_firing(r, id, firing, outcome, released)
  withdraw(r, id, firing)
  with_cold(r)
  r.runs = r.runs + 1
  local tripped = false
  if outcome == "succeeded" then
    r.failures = 0
    if r.state == PROBING then set_state(r, ACTIVE) end
  elseif outcome == "failed" or outcome == "lost" then
    r.failed_runs = r.failed_runs + 1
    tripped = count_failure(r)
  end
  if outcome == "lost" then note_event("lost", r, id) end
  close_backfilled(r, id, outcome == "failed" or outcome == "lost")
  follow(r, released)
  return tripped
end
