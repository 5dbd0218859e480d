-- look: records of open firings.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4..]  firings
--
-- Returns  {now_ms, firings} with the columns of audit; those that are not open are left out
-- Resend   safe
-- Writes   nothing
-- Cost     O(firings)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/firingid.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/position.lua

local ids, found = {}, {}
for i = 4, #ARGV do ids[#ids + 1] = ARGV[i] end

-- Decide.
load_firings(ids)
for _, id in ipairs(ids) do
  if firings[id] then add_row(found, id, firings[id]) end
end

-- Apply.
return { now_ms, found }
