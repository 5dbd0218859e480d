-- repair_token: make the last granted token one that all tokens in use are granted by.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  newest  largest token that a record holds. While the field is no token none is granted, so that it stays so
--
-- Returns  {"token", "meta"} when it was repaired, else nothing
-- Resend   safe, names nothing
-- Writes   meta
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/token.lua

local newest = number_of[ARGV[4]]

-- Decide.
local granted = tokens.granted()
if granted and granted >= newest then return {} end
if not granted then newest = math.max(newest, now_ms * 1000) end

-- Apply.
redis.call("HSET", META, "token", decimal(newest))
return { "token", "meta" }
