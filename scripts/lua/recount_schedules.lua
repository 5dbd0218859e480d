-- recount_schedules: count the schedules of a shard again, some at a time, while others change them.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1]  limit   schedules of one call
-- ARGV[2]  cursor  that the last answer named, "" at first
--
-- Returns  {1 the counters are what was counted | 0 call again, cursor, counter that was wrong, ...}
--          When another caller went on, 0 and where it is, or 1 when it ended. Up to the ID that the recount has
--          come to, every change is counted there as well: see lib/count.lua
-- Resend   the same, but names no counter again
-- Writes   meta
-- Cost     O(limit)
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/count.lua

local limit, ids, sums, answer = tonumber(ARGV[1]), {}, {}, { 0, "" }
local function add(name, n) sums[name] = sums[name] + n end

-- Decide.
local cursor = redis.call("HGET", META, "recount") or ""
if cursor ~= ARGV[2] then return { cursor == "" and 1 or 0, cursor } end
local members = redis.call("ZRANGEBYLEX", LABEL, "(\1" .. cursor, "(\2", "LIMIT", 0, limit)
for _, name in ipairs(COUNTERS) do
  sums[name] = tonumber(redis.call("HGET", META, "recount_" .. name) or "0")
end
for _, member in ipairs(members) do ids[#ids + 1] = string.sub(member, 2) end
load_schedules(ids)
for _, id in ipairs(ids) do
  local r = schedules[id]
  if r then
    add(COUNTED[r.state], 1)
    add("claimed", r.token ~= NO_TOKEN and 1 or 0)
    add("buffered", r.buffered)
  end
end

-- Apply.
if #ids == limit then
  redis.call("HSET", META, "recount", ids[#ids])
  for _, name in ipairs(COUNTERS) do redis.call("HSET", META, "recount_" .. name, decimal(sums[name])) end
  answer[2] = ids[#ids]
  return answer
end
answer[1] = 1
redis.call("HDEL", META, "recount")
for _, name in ipairs(COUNTERS) do
  if number_of[redis.call("HGET", META, name) or "0"] ~= sums[name] then
    answer[#answer + 1] = name
    redis.call("HSET", META, name, decimal(sums[name]))
  end
  redis.call("HDEL", META, "recount_" .. name)
end
return answer
