-- periodic_list: read one periodic task, or all.
--
-- KEYS[1]  hash  periodic: see lib/periodic.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  task  "": all
--
-- Returns  {now_ms, task, entry, ...}, in no order
--          entry: record, owner, display, error, by, reason
-- Resend   safe
-- Writes   nothing
-- Cost     O(1), or O(tasks) for all
-- @include lib/clock.lua
-- @include lib/periodic.lua

local name, names = ARGV[4], { ARGV[4] }

-- Decide.
if name == "" then
  names = {}
  for _, field in ipairs(redis.call("HKEYS", TASKS)) do
    if not string.find(field, ":", 1, true) then names[#names + 1] = field end
  end
end

-- Apply.
local reply = { now_ms }
for _, task in ipairs(names) do
  local entry = task_entry(task)
  if entry[1] ~= "" then
    reply[#reply + 1], reply[#reply + 2] = task, entry
  end
end
return reply
