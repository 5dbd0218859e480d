-- Telling sleeping workers that something became due earlier than all that
-- they know of. A message may be lost: it only shortens a sleep.

-- wakes says, before the moves are written, whether r is due first now.
local function wakes(r)
  local score = moves[r.id]
  if not score then return false end
  local first = redis.call("ZRANGE", DUE, 0, 0, "WITHSCORES")
  return not first[2] or tonumber(score) < tonumber(first[2])
end

-- audit_now makes released firings due for the auditor at once, when the
-- caller has no queue to put them in.
local function audit_now(released)
  for i = 1, #released, 3 do audits[released[i]] = now_ms end
end
