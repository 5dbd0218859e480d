-- backfill_halt: halt a backfill, or let it go on where it was halted. What it opened runs on.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  schedule
-- ARGV[5]  backfill
-- ARGV[6]  halt     "1": halt; "0": go on
-- ARGV[7]  channel  for waking
-- ARGV[8]  message
--
-- Returns  {status, record}; OK; GONE no such backfill of the present generation. One that ended stays so
-- Resend   safe
-- Writes   bf, bfq, evt
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/event.lua
-- @include lib/backfill.lua

local schedule, backfill, halt = ARGV[4], ARGV[5], ARGV[6] == "1"
local channel, message = ARGV[7], ARGV[8]

-- Decide.
local r, b = get_schedule(schedule), get_backfill(schedule .. ":" .. backfill)
if not r or not b or r.generation ~= decimal(b.generation) then return { "GONE", "" } end
if b.ended_ms > 0 or halt == (b.halted_ms > 0) then return { "OK", encode_backfill(b) } end
b.halted_ms = halt and now_ms or 0
note_event(halt and "backfill_halted" or "backfill_started", r, backfill)

-- Apply.
put_backfill(b)
write_events()
if not halt then redis.call("PUBLISH", channel, message) end
return { "OK", encode_backfill(b) }
