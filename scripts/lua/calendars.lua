-- calendars: store calendars by name, or mark them for deletion, and raise the version of all.
--
-- KEYS[1]  hash  conf: calendars (version)
-- KEYS[2]  hash  cal: name -> definition
-- KEYS[3]  hash  calq: name -> change that the shards may not know of yet: version|started_ms|kind,
--                kind "create", "replace" or "delete"
-- ARGV[1]    started_ms        the caller's clock
-- ARGV[2]    expected_version  of all calendars; "" any
-- ARGV[3..]  two for each calendar: name, definition, not interpreted; "" marks it for deletion
--
-- Returns  {OK | CONFLICT, version, change, ...}: change is what calq holds for a calendar; "" when it is stored
--          like that, or is not there to be deleted, and nothing is left to do
-- Resend   the same, unless another call came in between; CONFLICT is for a version that others raised, not this call
-- Writes   conf, cal, calq
-- Cost     O(calendars)

local conf, definitions, changes, started_ms, expected = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local version = tonumber(redis.call("HGET", conf, "calendars") or "0")
local answer, wanted = { "OK", version }, {}

-- is_wanted says whether a calendar must change, beside what is under way.
local function is_wanted(definition, stored, pending)
  local deletes = definition == ""
  if pending == "" then return definition ~= (stored or "") end
  if deletes ~= (string.match(pending, "%a+$") == "delete") then return true end
  return not deletes and definition ~= stored
end

-- Decide.
local mine = string.format("%.0f|%s|", version, started_ms)
local repeated = false
for i = 3, #ARGV, 2 do
  local name, definition = ARGV[i], ARGV[i + 1]
  local stored = redis.call("HGET", definitions, name)
  local change = redis.call("HGET", changes, name) or ""
  if is_wanted(definition, stored, change) then
    local kind = definition == "" and "delete" or stored and "replace" or "create"
    change = string.format("%.0f|%s|%s", version + 1, started_ms, kind)
    wanted[#wanted + 1] = { name = name, definition = definition, change = change }
  end
  repeated = repeated or string.sub(change, 1, #mine) == mine
  answer[#answer + 1] = change
end
local conflict = expected ~= "" and tonumber(expected) ~= version
if conflict and (#wanted > 0 or not repeated) then return { "CONFLICT", version } end

-- Apply.
for _, w in ipairs(wanted) do
  if w.definition ~= "" then redis.call("HSET", definitions, w.name, w.definition) end
  redis.call("HSET", changes, w.name, w.change)
end
if #wanted > 0 then answer[2] = redis.call("HINCRBY", conf, "calendars", 1) end
return answer
