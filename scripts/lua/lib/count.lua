-- Counters: active, paused, disabled, completed (schedules in that state),
-- claimed (with a token), buffered (firings). While recount_schedules goes
-- through the IDs in their order, what changes up to the one that it has come
-- to, in the field recount, changes what it has counted, in recount_active and
-- so on.
local COUNTED = { "active", "paused", "disabled", "completed", "active" }
local COUNTERS = { "active", "paused", "disabled", "completed", "claimed", "buffered" }
local sums, recounted = {}, nil

-- up_to compares by bytes, as sorted sets do; how Lua compares depends on the
-- server's locale.
local function up_to(id, last)
  for i = 1, math.min(#id, #last) do
    local a, b = string.byte(id, i), string.byte(last, i)
    if a ~= b then return a < b end
  end
  return #id <= #last
end

local function count(name, by, id)
  if recounted == nil then recounted = redis.call("HGET", META, "recount") end
  sums[name] = (sums[name] or 0) + by
  if recounted and up_to(id, recounted) then
    sums["recount_" .. name] = (sums["recount_" .. name] or 0) + by
  end
end

-- add_count begins anew with a counter that is no number: it would stop every
-- change of the shard, halfway. A recount makes it right.
local function add_count(name, by)
  local answer = redis.pcall("HINCRBY", META, name, decimal(by))
  if type(answer) == "table" then redis.call("HSET", META, name, decimal(by)) end
end

local function write_counts()
  for name, by in pairs(sums) do
    if by ~= 0 then add_count(name, by) end
  end
end
