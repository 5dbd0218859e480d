-- members: list the workers seen lately, and forget the others.
--
-- KEYS[1]  zset  workers: worker -> seen_ms
-- KEYS[2]  hash  members: worker -> description
-- KEYS[3]  hash  drains: see drain
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  max_age_ms
--
-- Returns  description, seen_ms, what drains holds | "" for each, the one seen first first
-- Resend   safe
-- Writes   workers, members, drains, when it forgets
-- Cost     O(workers)
-- @include lib/clock.lua

local oldest_ms, reply = now_ms - tonumber(ARGV[4]), {}

-- Decide.
local gone = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", string.format("(%.0f", oldest_ms), "LIMIT", 0, 1000)
local seen = redis.call("ZRANGEBYSCORE", KEYS[1], oldest_ms, "+inf", "WITHSCORES")

-- Apply.
if #gone > 0 then
  redis.call("ZREM", KEYS[1], unpack(gone))
  redis.call("HDEL", KEYS[2], unpack(gone))
  redis.call("HDEL", KEYS[3], unpack(gone))
end
for i = 1, #seen, 2 do
  reply[#reply + 1] = redis.call("HGET", KEYS[2], seen[i]) or ""
  reply[#reply + 1] = tonumber(seen[i + 1])
  reply[#reply + 1] = redis.call("HGET", KEYS[3], seen[i]) or ""
end
return reply
