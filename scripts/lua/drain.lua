-- drain: have a worker take no new work, or take that back. It ends with the process of the worker.
--
-- KEYS[1]  zset  workers: worker -> seen_ms
-- KEYS[2]  hash  drains: worker -> process|since_ms|note
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  worker
-- ARGV[5]  process  of the worker, as it announces it
-- ARGV[6]  on       "1": drain; "0": take it back
-- ARGV[7]  note     who and why, not interpreted
-- ARGV[8]  channel  for waking the workers
-- ARGV[9]  message
--
-- Returns  {OK | GONE no such worker, what drains holds | ""}; a repeat replaces the note and keeps since_ms
-- Resend   safe
-- Writes   drains
-- Cost     O(1)
-- @include lib/clock.lua

local worker, process, on, note = ARGV[4], ARGV[5], ARGV[6] == "1", ARGV[7]

-- Decide.
if not redis.call("ZSCORE", KEYS[1], worker) then return { "GONE", "" } end
local before = redis.call("HGET", KEYS[2], worker) or ""
local known, since_ms = string.match(before, "^([^|]*)|(%d+)|")
local wish = ""
if on then
  wish = process .. "|" .. (known == process and since_ms or string.format("%.0f", now_ms)) .. "|" .. note
end

-- Apply.
if on then redis.call("HSET", KEYS[2], worker, wish) else redis.call("HDEL", KEYS[2], worker) end
if wish ~= before then redis.call("PUBLISH", ARGV[8], ARGV[9]) end
return { "OK", wish }
