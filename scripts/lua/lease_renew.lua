-- lease_renew: extend a lease that is still held.
--
-- KEYS[1]  hash  lease, see lease_acquire
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  token
-- ARGV[5]  ttl_ms  from now
--
-- Returns  until_ms, or 0 when the lease was lost; it is never revived
-- Resend   safe
-- Writes   the lease, when it is held
-- Cost     O(1)
-- @include lib/clock.lua

local token, ttl_ms = tonumber(ARGV[4]), tonumber(ARGV[5])

-- Decide.
local held = redis.call("HMGET", KEYS[1], "token", "until_ms")
if tonumber(held[1] or "0") ~= token or tonumber(held[2] or "0") <= now_ms then return 0 end

-- Apply.
redis.call("HSET", KEYS[1], "until_ms", string.format("%.0f", now_ms + ttl_ms))
return now_ms + ttl_ms
