-- mark: record that the tasks of firings, or of their re-drives, are in their queues.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]    audit_ms  when the auditor looks at them next, from now; at most 5 s when a buffered firing waits for it
-- ARGV[5..]  firings
--
-- Returns  OK; firings past the intent are left alone
-- Resend   safe
-- Writes   fir, aud
-- Cost     O(firings)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/firingid.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua

local audit_ms, ids = now_ms + tonumber(ARGV[4]), {}
local WAITED_FOR_MS = 5000
for i = 5, #ARGV do ids[#ids + 1] = ARGV[i] end

-- Decide.
load_firings(ids)
for _, id in ipairs(ids) do
  local firing = firings[id]
  local owed = firing and has_bit(firing.flags, TASK_OWED)
  if owed or firing and firing.state == INTENT then
    local r = get_schedule((split_firing(id)))
    if firing.state == INTENT then firing.state = ENQUEUED end
    if owed then firing.flags = firing.flags - TASK_OWED end
    put_firing(id, firing, r and r.buffered > 0 and math.min(audit_ms, now_ms + WAITED_FOR_MS) or audit_ms)
  end
end

-- Apply.
write_firings()
return "OK"
