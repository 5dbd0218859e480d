-- periodic_trigger: ask for an extra run of a periodic task, now or after the run under way.
--
-- KEYS[1]  hash  periodic: see lib/periodic.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  task
--
-- Returns  {now_ms, 1 asked | 0 one is asked for already, entry}; the record is "" when there is none
-- Resend   answers 0 while no claim has answered the first
-- Writes   periodic
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/periodic.lua

local name = ARGV[4]

-- Decide.
local r = get_task(name)
if not r then return { now_ms, 0, task_entry(name) } end
local answered = r.owner ~= "" and r.taken or r.ended
if r.asked > answered then return { now_ms, 0, task_entry(name) } end

-- Apply.
r.asked = r.asked + 1
put_task(r)
return { now_ms, 1, task_entry(name) }
