-- stats: counters of a shard.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  scanned  how many of the earliest entries are looked at, to tell those that are free from claims that ran
--                   out and pauses that ended
--
-- Returns  {now_ms, active, paused, disabled, completed, claimed, buffered, ledger, due, next_schedule | "",
--          next_ms, late_ms}
--          claimed: claims that ran out and were not taken over included; ledger: firings in it, buffered ones
--          included; due: due and not claimed; next_ms 0: none
-- Resend   safe
-- Writes   nothing
-- Cost     O(scanned)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/count.lua
-- @include lib/state.lua

local scanned = tonumber(ARGV[4])
local counters = redis.call("HMGET", META, "active", "paused", "disabled", "completed", "claimed", "buffered")
local reply = { now_ms }
for i = 1, 6 do reply[i + 1] = number_of[counters[i] or ""] or 0 end

-- Decide.
local entries = redis.call("ZRANGEBYSCORE", DUE, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, scanned)
local ids, not_due, first, late_ms = {}, 0, false, 0
for i = 1, #entries, 2 do ids[#ids + 1] = entries[i] end
load_schedules(ids)
for i, id in ipairs(ids) do
  local r, score = schedules[id], tonumber(entries[2 * i])
  local free = r and r.token == NO_TOKEN and can_fire(r)
  if free then
    first = first or r
    late_ms = math.max(late_ms, now_ms - due_ms(r))
  elseif score <= now_ms then
    not_due = not_due + 1
  end
end

-- Apply.
reply[8], reply[9] = redis.call("HLEN", FIRING), redis.call("ZCOUNT", DUE, "-inf", now_ms) - not_due
reply[10], reply[11], reply[12] = first and first.id or "", first and first.next_ms or 0, late_ms
return reply
