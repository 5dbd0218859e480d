-- Requests that took effect are remembered for a while, so that a repeat
-- answers with the first result and a delayed duplicate changes nothing.
local PRUNED = 200 -- forgotten per call, at most

local function prune_requests()
  local over = redis.call("ZRANGEBYSCORE", REQUEST, "-inf", now_ms, "LIMIT", 0, PRUNED)
  if #over == 0 then return end
  redis.call("ZREM", REQUEST, unpack(over))
  for i, request in ipairs(over) do over[i] = ":" .. request end
  redis.call("HDEL", OUTCOME, unpack(over))
end

local function is_known(request)
  local until_ms = redis.call("ZSCORE", REQUEST, request)
  return until_ms and tonumber(until_ms) > now_ms
end

-- remember keeps the answer as well, unless it is "".
local function remember(request, keep_ms, answer)
  redis.call("ZADD", REQUEST, now_ms + keep_ms, request)
  if answer ~= "" then redis.call("HSET", OUTCOME, ":" .. request, answer) end
end

local function first_answer(request) return redis.call("HGET", OUTCOME, ":" .. request) or "" end
