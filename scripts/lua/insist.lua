-- insist: have a shard refuse completions that were planned with older calendars.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1]  version  of the calendars
--
-- Returns  the version that the shard insists on
-- Resend   safe
-- Writes   meta, when the version is newer
-- Cost     O(1)
-- @include lib/shard.lua

local version = tonumber(ARGV[1])

-- Decide.
local stored = calendar_version()
if stored >= version then return stored end

-- Apply.
redis.call("HSET", META, "cal", decimal(version))
return version
