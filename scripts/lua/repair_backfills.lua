-- repair_backfills: see to it that backfills are looked at some day, and nothing else. One that cannot be read goes.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]    longest_ms  a look that is further away than this is wrong
-- ARGV[5..]  backfills, as "schedule:backfill"
--
-- Returns  backfill, key that was repaired, ...
-- Resend   safe, names nothing
-- Writes   bfq, bf
-- Cost     O(backfills)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/event.lua
-- @include lib/backfill.lua
-- @include lib/repair.lua

local longest_ms, looks, strays, damaged = tonumber(ARGV[4]), {}, {}, {}

-- Decide.
for i = 5, #ARGV do
  local name, score = ARGV[i], score_of(BACKFILL_DUE, ARGV[i])
  local b, unread = get_backfill(name)
  if unread then
    damaged[#damaged + 1] = name
  elseif not b then
    if score then strays[#strays + 1] = name end
  elseif not score or score > now_ms + longest_ms then
    looks[#looks + 1] = name
  end
end

-- Apply.
for _, name in ipairs(damaged) do
  drop_backfill(name)
  tell(name, "bf")
end
for _, name in ipairs(strays) do
  redis.call("ZREM", BACKFILL_DUE, name)
  tell(name, "bfq")
end
for _, name in ipairs(looks) do
  redis.call("ZADD", BACKFILL_DUE, decimal(now_ms), name)
  tell(name, "bfq")
end
return repaired
