-- Attempts that the shard forgot, since it went back to before they began. A
-- call c has the fields that finish.lua reads from ARGV.

-- forgot says that a success is that of such an attempt: no attempt has a larger
-- token than the newest one. A zombie has a smaller one.
local function forgot(c, r, newest)
  return c.outcome == "succeeded" and c.token > math.max(newest, tonumber(r.generation))
end

-- remember returns the firing of a report, which is that of its newest attempt
-- when the shard forgot that. Of firings that are not open it opens the pending
-- one only, as begin does: raising the mark past it would settle it unseen.
local function remember(c, r, firing)
  if not forgot(c, r, firing and firing.token or 0) then return firing end
  local pending = c.at_ms > 0 and c.at_ms == r.next_ms and c.at_ms > r.high_water_ms
  if not firing and not pending then return false end
  if not firing then
    firing = new_firing(ENQUEUED, c.at_ms, r.queue)
    open_firing(r, c.id, firing, now_ms)
  end
  firing.token = c.token
  if pending then advance(r, c.at_ms, FIRED, 0) end
  return firing
end
