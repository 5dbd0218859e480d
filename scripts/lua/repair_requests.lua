-- repair_requests: drop answers to requests that are forgotten.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..]  requests whose answer is kept
--
-- Returns  request, key that was repaired, ...
-- Resend   safe, names nothing
-- Writes   out
-- Cost     O(requests)
-- @include lib/shard.lua

local strays, repaired = {}, {}

-- Decide.
for i = 1, #ARGV do
  if not redis.call("ZSCORE", REQUEST, ARGV[i]) then strays[#strays + 1] = ARGV[i] end
end

-- Apply.
for _, request in ipairs(strays) do
  if redis.call("HDEL", OUTCOME, ":" .. request) == 1 then
    repaired[#repaired + 1] = request
    repaired[#repaired + 1] = "out"
  end
end
return repaired
