-- Scheduled times that an operator asked to skip. A bit of the policy says that
-- there are some, so that other claims need not look.

-- set_skips writes those of the list that have no verdict yet, but not the one
-- that is left out, and returns how many there are. What is no time goes.
local function set_skips(r, list, without)
  local kept, n = "", 0
  for _, at in ipairs(items(list)) do
    if at ~= without and (tonumber(at) or 0) > r.high_water_ms then kept, n = add_item(kept, at), n + 1 end
  end
  if (n > 0) ~= has_bit(r.policy, HAS_SKIPS) then r.policy = r.policy + (n > 0 and HAS_SKIPS or -HAS_SKIPS) end
  if n > 0 then redis.call("HSET", SKIP, r.id, kept) else redis.call("HDEL", SKIP, r.id) end
  change(r)
  return n
end

local function skip_list(r) return has_bit(r.policy, HAS_SKIPS) and redis.call("HGET", SKIP, r.id) or "" end

local function is_skipped(r, at) return has_bit(r.policy, HAS_SKIPS) and contains(skip_list(r), at) end
