-- revise gives scheduled times up to last_ms one verdict because the pending
-- time is moved past them by hand. The first of them may have an intent, of a
-- claim that ended just now or was handed back: it fires, and they begin with
-- the second.
local function revise(r, range, second_ms)
  if not range then return end
  keep_intent(r)
  if range.first_ms <= r.high_water_ms then
    range.first_ms, range.count = math.max(second_ms, r.high_water_ms + 1), math.max(0, range.count - 1)
  end
  advance_range(r, range)
end
