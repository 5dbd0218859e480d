-- heartbeat: extend the leases of running attempts.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]    lease_ms  from now
-- ARGV[5..]  two for each attempt: firing, token
--
-- Returns  OK extended; CANCEL extended, but the run should end; LOST another attempt owns it, it is settled,
--          or its schedule was deleted
-- Resend   safe
-- Writes   fir, aud
-- Cost     O(attempts)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/firingid.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua

local lease_ms, ids, pulses = tonumber(ARGV[4]), {}, {}
for i = 5, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end

-- is_gone says whether the schedule of a firing was deleted.
local function is_gone(id)
  local schedule, generation = split_firing(id)
  local r = get_schedule(schedule)
  return not r and not unreadable[schedule] or r and r.generation ~= generation
end

-- Decide.
load_firings(ids)
for i, id in ipairs(ids) do
  local firing, token = firings[id], tonumber(ARGV[4 + 2 * i])
  if firing and is_gone(id) then
    drop_firing(id)
    pulses[i] = "LOST"
  elseif firing and firing.state == RUNNING and firing.token == token then
    firing.lease_ms = now_ms + lease_ms
    put_firing(id, firing, firing.lease_ms + lease_ms)
    pulses[i] = has_bit(firing.flags, CANCEL_ASKED) and "CANCEL" or "OK"
  else
    pulses[i] = "LOST"
  end
end

-- Apply.
write_firings()
return pulses
