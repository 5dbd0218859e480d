-- resume: let a paused or disabled schedule go on, and forget its consecutive failures.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]   schedule
-- ARGV[5]   generation        that was read
-- ARGV[6]   expected_next_ms  pending time that the plan was made for
-- ARGV[7]   next_ms           the pending time from now on, 0 none
-- ARGV[8]   not_before_ms     the same with jitter
-- ARGV[9]   range             "verdict,why,count,first_ms,last_ms" of times of the pause, or ""
-- ARGV[10]  second_ms         the scheduled time that follows the first of them
-- ARGV[11]  channel           for waking
-- ARGV[12]  message
-- ARGV[13]  calendars         version of those that the plan was made with
--
-- Returns  {OK | GONE | RACE, next_ms}; RACE: the pending time moved since the plan was made,
--          or the calendars are older than the shard's: plan again
-- Resend   safe
-- Writes   due, st, fir, aud, opn, buf, out, meta, evt
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/event.lua
-- @include lib/count.lua
-- @include lib/state.lua
-- @include lib/verdict.lua
-- @include lib/open.lua
-- @include lib/run.lua
-- @include lib/backfill.lua
-- @include lib/settle.lua
-- @include lib/revise.lua
-- @include lib/wake.lua
-- @include lib/write.lua

local generation, expected_next_ms, next_ms = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local channel, message, released = ARGV[11], ARGV[12], {}

-- Decide.
local r = get_schedule(ARGV[4])
if not r or r.generation ~= generation then return { "GONE", 0 } end
local stopped = r.state == PAUSED or r.state == DISABLED
local old = old_calendars(r.policy, tonumber(ARGV[13]))
if stopped and (old or r.next_ms ~= expected_next_ms) then return { "RACE", r.next_ms } end
promise(r)
if stopped then
  revise(r, decode_range(ARGV[9]), tonumber(ARGV[10]))
  if next_ms ~= r.next_ms then r.next_ms, r.not_before_ms = next_ms, tonumber(ARGV[8]) end
  resume(r)
elseif r.state == PROBING then
  set_state(r, ACTIVE)
end
with_cold(r).failures = 0
change(r)
follow(r, released)
audit_now(released)

-- Apply.
local wake = wakes(r) or #released > 0
redis.call("HDEL", OUTCOME, r.id .. ":p")
write_all()
if wake then redis.call("PUBLISH", channel, message) end
return { "OK", r.next_ms }
