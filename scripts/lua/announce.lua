-- announce: record a worker as seen now.
--
-- KEYS[1]  zset  workers: worker -> seen_ms
-- KEYS[2]  hash  members: worker -> description
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  worker
-- ARGV[5]  description  not interpreted
--
-- Returns  now_ms
-- Resend   safe
-- Writes   workers, members
-- Cost     O(log workers)
-- @include lib/clock.lua

local worker, description = ARGV[4], ARGV[5]

-- Decide.
local seen_ms = string.format("%.0f", now_ms)

-- Apply.
redis.call("ZADD", KEYS[1], seen_ms, worker)
redis.call("HSET", KEYS[2], worker, description)
return now_ms
