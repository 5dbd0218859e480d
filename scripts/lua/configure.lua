-- configure: read the configuration of a namespace, or create it.
--
-- KEYS[1]  hash  conf: fmt (format of everything stored), shards
-- ARGV[1]  format  to create it with
-- ARGV[2]  shards  to create it with
--
-- Returns  {format, shards} that are stored
-- Resend   safe
-- Writes   conf, when there is none
-- Cost     O(1)

local format, shards = ARGV[1], ARGV[2]

-- Decide.
local stored = redis.call("HMGET", KEYS[1], "fmt", "shards")
if stored[1] and stored[2] then return { stored[1], stored[2] } end

-- Apply.
redis.call("HSET", KEYS[1], "fmt", format, "shards", shards)
return { format, shards }
