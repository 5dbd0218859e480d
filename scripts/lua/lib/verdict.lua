-- The high-water mark and the verdicts. The mark rises here only, and every
-- rise says what became of exactly what it passed: so the verdict ranges
-- cover everything up to the mark, each scheduled time once.
local HISTORY = 32 -- closed ranges that are kept
local TOTAL = { [2] = "coalesced", [3] = "missed", [4] = "overlapped" }

local RANGE = "^(%d+),(%d+),(%d+),(%d+),(%d+)$" -- verdict, why, how many, first_ms, last_ms

-- decode_range reads one that a caller planned, nil for "".
local function decode_range(text)
  if text == "" then return nil end
  local verdict, why, counted, first_ms, last_ms = string.match(text, RANGE)
  if not verdict then return nil end
  return {
    verdict = number_of[verdict], why = number_of[why], count = number_of[counted],
    first_ms = number_of[first_ms], last_ms = number_of[last_ms],
  }
end

-- close_range moves the current range into the history.
local function close_range(r)
  local verdict, _, counted = string.match(r.range, RANGE)
  if not verdict then return end
  with_cold(r)
  verdict = tonumber(verdict)
  local total = TOTAL[verdict] or (verdict ~= FIRED and "others")
  if total then r[total] = r[total] + (number_of[counted] or 0) end
  r.history, r.ranges = r.history .. r.range .. ";", r.ranges + 1
  if r.ranges > HISTORY then
    r.history, r.ranges = string.gsub(r.history, "^[^;]*;", "", 1), HISTORY
  end
end

-- record adds scheduled times to the current range, or begins another. A count
-- of 0 means that nobody counted them.
local function record(r, verdict, why, first_ms, last_ms, counted)
  if verdict == FIRED then r.fired = r.fired + counted end
  local reason = text_of[verdict] .. "," .. text_of[why]
  local current, before, since = string.match(r.range, "^(%d+,%d+),(%d+),(%d+),%d+$")
  if current == reason then
    before = number_of[before] or 0
    counted = (before == 0 or counted == 0) and 0 or before + counted
  else
    close_range(r)
    since = text_of[first_ms]
  end
  r.range = reason .. "," .. text_of[counted] .. "," .. since .. "," .. text_of[last_ms]
  change(r)
end

-- advance gives one scheduled time its verdict, unless it has one.
local function advance(r, at_ms, verdict, why)
  if at_ms <= r.high_water_ms then return end
  r.high_water_ms = at_ms
  record(r, verdict, why, at_ms, at_ms, 1)
end

-- advance_range gives one verdict to all scheduled times of a range.
local function advance_range(r, range)
  if range.last_ms <= r.high_water_ms then return end
  r.high_water_ms = range.last_ms
  record(r, range.verdict, range.why, range.first_ms, range.last_ms, range.count)
end

-- keep_intent lets the pending time stand as fired when it has an intent: that
-- may be in its queue already, and the auditor sees to it.
local function keep_intent(r)
  if r.next_ms > r.high_water_ms and get_firing(firing_of(r, decimal(r.next_ms))) then
    advance(r, r.next_ms, FIRED, 0)
  end
end

-- promise ends a claim that an operator's act meets. An intent is kept; a claim
-- without one is dropped and its scheduled time stays pending.
local function promise(r)
  if r.token == NO_TOKEN then return end
  keep_intent(r)
  set_token(r, NO_TOKEN)
end
