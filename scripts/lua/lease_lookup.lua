-- lease_lookup: say who holds a lease.
--
-- KEYS[1]  hash  lease, see lease_acquire
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
--
-- Returns  {owner, token, until_ms}; until_ms 0: nobody
-- Resend   safe
-- Writes   nothing
-- Cost     O(1)
-- @include lib/clock.lua

-- Decide.
local held = redis.call("HMGET", KEYS[1], "owner", "token", "until_ms")
local until_ms = tonumber(held[3] or "0")
if until_ms <= now_ms then return { "", 0, 0 } end

-- Apply.
return { held[1], tonumber(held[2]), until_ms }
