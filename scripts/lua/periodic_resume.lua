-- periodic_resume: end the pause of a periodic task.
--
-- KEYS[1]  hash  periodic: see lib/periodic.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  task
--
-- Returns  {now_ms, entry}; the record is "" when there is none
-- Resend   safe
-- Writes   periodic
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/periodic.lua

local name = ARGV[4]

-- Decide.
local r = get_task(name)
if not r then return { now_ms, task_entry(name) } end
r.paused, r.paused_until_ms = 0, 0

-- Apply.
put_task(r, ":b", "", ":r", "")
return { now_ms, task_entry(name) }
