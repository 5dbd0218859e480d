-- lease_release: end a lease at once.
--
-- KEYS[1]  hash  lease, see lease_acquire
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  token
--
-- Returns  1, or 0 when the lease was lost before
-- Resend   answers 0, changes nothing
-- Writes   the lease, when it is held
-- Cost     O(1)
-- @include lib/clock.lua

local token = tonumber(ARGV[4])

-- Decide.
local held = redis.call("HMGET", KEYS[1], "token", "until_ms")
if tonumber(held[1] or "0") ~= token or tonumber(held[2] or "0") <= now_ms then return 0 end

-- Apply.
redis.call("HSET", KEYS[1], "until_ms", "0")
return 1
