-- The high-water mark and the verdicts. The mark rises here only, and every
-- rise says what became of exactly what it passed: so the verdict ranges
-- cover everything up to the mark, each scheduled time once.
local HISTORY = 32 -- closed ranges that are kept
local TOTAL = { [2] = "coalesced", [3] = "missed", [4] = "overlapped" }

-- close_range moves the current range into the history.
local function close_range(r)
  if r.verdict == 0 then return end
  with_cold(r)
  local total = TOTAL[r.verdict] or (r.verdict ~= FIRED and "others")
  if total then r[total] = r[total] + r.count end
  r.history = r.history
    .. string.format("%d,%d,%.0f,%.0f,%.0f;", r.verdict, r.why, r.count, r.first_ms, r.last_ms)
  r.ranges = r.ranges + 1
  if r.ranges > HISTORY then
    r.history, r.ranges = string.gsub(r.history, "^[^;]*;", "", 1), HISTORY
  end
end

-- record adds scheduled times to the current range, or begins another. A count
-- of 0 means that nobody counted them.
local function record(r, verdict, why, first_ms, last_ms, counted)
  if verdict == FIRED then r.fired = r.fired + counted end
  if r.verdict == verdict and r.why == why then
    r.count = (r.count == 0 or counted == 0) and 0 or r.count + counted
    r.last_ms = last_ms
  else
    close_range(r)
    r.verdict, r.why, r.count, r.first_ms, r.last_ms = verdict, why, counted, first_ms, last_ms
  end
  change(r)
end

-- advance gives one scheduled time its verdict, unless it has one.
local function advance(r, at_ms, verdict, why)
  if at_ms <= r.high_water_ms then return end
  r.high_water_ms = at_ms
  record(r, verdict, why, at_ms, at_ms, 1)
end

-- advance_range gives one verdict to all scheduled times from first to last.
local function advance_range(r, verdict, why, first_ms, last_ms, counted)
  if last_ms <= r.high_water_ms then return end
  r.high_water_ms = last_ms
  record(r, verdict, why, first_ms, last_ms, counted)
end

-- promise ends a claim that an operator's act meets. An intent may be in its
-- queue already, so it stands as fired and the auditor sees to it; a claim
-- without one is dropped and its scheduled time stays pending.
local function promise(r)
  if r.token == 0 then return end
  if r.next_ms > r.high_water_ms and get_firing(firing_of(r, decimal(r.next_ms))) then
    advance(r, r.next_ms, FIRED, 0)
  end
  set_token(r, 0)
end
