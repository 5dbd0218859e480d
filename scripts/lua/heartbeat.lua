-- heartbeat: extend the leases of running attempts.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]    lease_ms  from now
-- ARGV[5..]  two for each attempt: firing, token
--
-- Returns  OK extended; CANCEL extended, but the run should end; LOST another attempt owns it, or it is settled
-- Resend   safe
-- Writes   fir, aud
-- Cost     O(attempts)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/firing.lua

local lease_ms, ids, pulses = tonumber(ARGV[4]), {}, {}
for i = 5, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end

-- Decide.
load_firings(ids)
for i, id in ipairs(ids) do
  local firing, token = firings[id], tonumber(ARGV[4 + 2 * i])
  if firing and firing.state == RUNNING and firing.token == token then
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
