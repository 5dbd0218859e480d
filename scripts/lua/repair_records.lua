-- repair_records: make the rest of a schedule's record readable and right, where what decides when it fires is.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  ahead_ms  a high-water mark further ahead than this is no reason to cover what is before it
-- ARGV[5..]  eleven for each: schedule, generation ("": the others say nothing) and version of the definition that
--          the others come from: queue, policy, buffer_limit, max_failures, cool_down_ms, delay_ms, ends_ms, limit
--
-- Returns  schedule, key that was repaired, ...
--          Verdict ranges that cannot be read give way to one that says so, and counts of ranges are counted anew;
--          times after the year 9999 are forgotten; what differs from the definition is made like it
-- Resend   safe, names nothing
-- Writes   st
-- Cost     O(schedules)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/verdict.lua
-- @include lib/repair.lua
-- @include lib/repairrecord.lua

local ahead_ms = tonumber(ARGV[4])

-- Decide.
for i = 5, #ARGV, 11 do
  local r = get_schedule(ARGV[i])
  if r then
    with_cold(r)
    local verdicts, times, settings = repair_verdicts(r, ahead_ms), repair_times(r), repair_settings(r, i + 1)
    if verdicts or times or settings then
      change(r)
      tell(r.id, "st")
    end
  end
end

-- Apply.
write_schedules()
return repaired
