-- periodic_pause: stop new claims of a periodic task; a run under way goes on.
--
-- KEYS[1]  hash  periodic: see lib/periodic.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  task
-- ARGV[5]  until_ms  when it resumes by itself, 0: not
-- ARGV[6]  by
-- ARGV[7]  reason
--
-- Returns  {now_ms, entry}; the record is "" when there is none
-- Resend   safe
-- Writes   periodic
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/periodic.lua

local name, until_ms, by, reason = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]

-- Decide.
local r = get_task(name)
if not r then return { now_ms, task_entry(name) } end
r.paused, r.paused_until_ms = 1, until_ms

-- Apply.
put_task(r, ":b", by, ":r", reason)
return { now_ms, task_entry(name) }
