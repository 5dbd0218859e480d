-- calendars_done: note that every shard knows of changes of calendars.
--
-- KEYS[1]  hash  cal: name -> definition
-- KEYS[2]  hash  calq: name -> change, see calendars
-- ARGV[1..]  three for each calendar: name, change that was carried out, delete ("1": the calendar goes)
--
-- Returns  OK; a change that is not the newest any more stays noted
-- Resend   safe
-- Writes   cal, calq
-- Cost     O(calendars)

local definitions, changes, done = KEYS[1], KEYS[2], {}

-- Decide.
for i = 1, #ARGV, 3 do
  if redis.call("HGET", changes, ARGV[i]) == ARGV[i + 1] then done[#done + 1] = i end
end

-- Apply.
for _, i in ipairs(done) do
  redis.call("HDEL", changes, ARGV[i])
  if ARGV[i + 2] == "1" then redis.call("HDEL", definitions, ARGV[i]) end
end
return "OK"
