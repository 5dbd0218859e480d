-- announce: record a worker as seen now, and tell it whether it is to drain.
--
-- KEYS[1]  zset  workers: worker -> seen_ms
-- KEYS[2]  hash  members: worker -> description
-- KEYS[3]  hash  drains: see drain
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  worker
-- ARGV[5]  description  not interpreted
-- ARGV[6]  process      of the worker; a wish for an earlier one of that name is forgotten
--
-- Returns  {now_ms, what drains holds | ""}
-- Resend   safe
-- Writes   workers, members; drains, when it forgets
-- Cost     O(log workers)
-- @include lib/clock.lua

local worker, description, process = ARGV[4], ARGV[5], ARGV[6]

-- Decide.
local seen_ms = string.format("%.0f", now_ms)
local wish = redis.call("HGET", KEYS[3], worker) or ""
local stale = wish ~= "" and string.match(wish, "^([^|]*)|") ~= process

-- Apply.
redis.call("ZADD", KEYS[1], seen_ms, worker)
redis.call("HSET", KEYS[2], worker, description)
if stale then redis.call("HDEL", KEYS[3], worker) end
return { now_ms, stale and "" or wish }
