-- renew: extend claims.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]    ttl_ms  from now
-- ARGV[5..]  two for each claim: schedule, token
--
-- Returns  1 extended or 0 lost, for each. A claim that another took or that was completed is never revived
-- Resend   safe
-- Writes   due
-- Cost     O(claims)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/count.lua
-- @include lib/state.lua

local deadline_ms, ids, held = now_ms + tonumber(ARGV[4]), {}, {}
for i = 5, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end

-- Decide.
load_schedules(ids)
for i, id in ipairs(ids) do
  local r, token = schedules[id], ARGV[4 + 2 * i]
  held[i] = r and token ~= NO_TOKEN and r.token == token and 1 or 0
  if held[i] == 1 then hold(r, deadline_ms) end
end

-- Apply.
write_moves()
return held
