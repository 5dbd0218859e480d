-- periodic_ensure: make the entry of a periodic task, or keep the one that exists.
--
-- KEYS[1]  hash  periodic: see lib/periodic.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  task
-- ARGV[5]  display
-- ARGV[6]  first_ms  when it is due first; 0: now
--
-- Returns  {now_ms, 1 made | 0 kept, entry}
--          entry: record, owner, display, error, by, reason
-- Resend   answers 0, changes nothing
-- Writes   periodic, when there is no entry
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/periodic.lua

local name, display, first_ms = ARGV[4], ARGV[5], tonumber(ARGV[6])

-- Decide.
if get_task(name) then return { now_ms, 0, task_entry(name) } end
local r = new_task(name)
r.created_ms = now_ms
r.next_ms = first_ms == 0 and now_ms or first_ms

-- Apply.
put_task(r, ":d", display)
return { now_ms, 1, task_entry(name) }
