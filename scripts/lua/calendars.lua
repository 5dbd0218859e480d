-- calendars: replace the calendars of a namespace and raise their version.
--
-- KEYS[1]  hash  conf: calendars (version)
-- KEYS[2]  hash  cal: name -> definition
-- ARGV[1]    request  a nonce of this call
-- ARGV[2..]  two for each calendar: name, definition, not interpreted
--
-- Returns  the version
-- Resend   the same version, while no other call came in between
-- Writes   conf, cal
-- Cost     O(calendars)

local conf, definitions, request = KEYS[1], KEYS[2], ARGV[1]

-- Decide.
local stored = redis.call("HMGET", conf, "calendars", "calendars_by")
if stored[2] == request then return tonumber(stored[1]) end

-- Apply.
redis.call("DEL", definitions)
for i = 2, #ARGV, 2 do redis.call("HSET", definitions, ARGV[i], ARGV[i + 1]) end
redis.call("HSET", conf, "calendars_by", request)
return redis.call("HINCRBY", conf, "calendars", 1)
