-- read: definitions, records and last runs of schedules.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4..]  schedules
--
-- Returns  {now_ms, seven for each: definition, record, last run, running run, pause, failed enqueue, times to skip; "" where there is none}
-- Resend   safe
-- Writes   nothing
-- Cost     O(schedules)
-- @include lib/clock.lua
-- @include lib/shard.lua

local ids, columns = {}, {}
for i = 4, #ARGV do
  local n = #columns
  ids[#ids + 1] = ARGV[i]
  columns[n + 1], columns[n + 2], columns[n + 3], columns[n + 4] = ARGV[i], ARGV[i] .. ":r", ARGV[i] .. ":p", ARGV[i] .. ":e"
end

-- Decide.
local definitions = redis.call("HMGET", DEFINITION, unpack(ids))
local records = redis.call("HMGET", SCHEDULE, unpack(ids))
local outcomes = redis.call("HMGET", OUTCOME, unpack(columns))
local skips = redis.call("HMGET", SKIP, unpack(ids))

-- Apply.
local reply = { now_ms }
for i = 1, #ids do
  reply[#reply + 1] = definitions[i] or ""
  reply[#reply + 1] = records[i] or ""
  for j = 4 * i - 3, 4 * i do reply[#reply + 1] = outcomes[j] or "" end
  reply[#reply + 1] = skips[i] or ""
end
return reply
