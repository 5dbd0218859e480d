-- redrive: raise the number of re-drives of a firing whose task is lost. The caller enqueues it under the new number
-- and marks it; until then the task is owed, and whoever audits it enqueues it under the same number.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  firing
-- ARGV[5]  expected  re-drives that the audit saw
-- ARGV[6]  token     that the audit saw
-- ARGV[7]  audit_ms  when the auditor looks at it next, from now
--
-- Returns  {answer, redrives}
--          OK; ALREADY settled before, or its schedule was deleted, which drops it; STALE it moved on since the audit, leave it
-- Resend   the same answer
-- Writes   fir, aud
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/firingid.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua

local id, expected, token, audit_ms = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), now_ms + tonumber(ARGV[7])

-- Decide.
local firing = get_firing(id)
local schedule, generation = split_firing(id)
local r = get_schedule(schedule)
if not firing or not r or r.generation ~= generation then
  if firing then drop_firing(id) end
  write_firings()
  return { "ALREADY", 0 }
end
local lives = firing.state == RUNNING and firing.lease_ms > now_ms
if firing.token ~= token or lives or firing.state == BUFFERED then return { "STALE", firing.redrives } end
if firing.redrives == expected + 1 then return { "OK", firing.redrives } end
if firing.redrives ~= expected then return { "STALE", firing.redrives } end
firing.redrives = expected + 1
if not has_bit(firing.flags, TASK_OWED) then firing.flags = firing.flags + TASK_OWED end
if firing.state == WAITING then firing.state = ENQUEUED end
put_firing(id, firing, audit_ms)

-- Apply.
write_firings()
return { "OK", firing.redrives }
