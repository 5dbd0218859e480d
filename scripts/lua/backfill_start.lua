-- backfill_start: begin to fire scheduled times of the past, in a space of firing IDs of its own.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]   schedule
-- ARGV[5]   generation  that was read
-- ARGV[6]   backfill
-- ARGV[7]   from_ms     first instant
-- ARGV[8]   to_ms       last instant
-- ARGV[9]   every_ms    between two firings, at least
-- ARGV[10]  most_open   firings of it that are open at a time, at most
-- ARGV[11]  overlap     0 beside what is open; 1 pass over while something is; 3 wait while something is
-- ARGV[12]  again       "1": also what has fired before
-- ARGV[13]  limit       firings, 0 none
-- ARGV[14]  channel     for waking
-- ARGV[15]  message
--
-- Returns  {status, record}
--          OK; KNOWN it was started before, nothing is changed; GONE no such generation
-- Resend   KNOWN, changes nothing
-- Writes   bf, bfq, evt
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/event.lua
-- @include lib/backfill.lua

local schedule, generation, backfill = ARGV[4], ARGV[5], ARGV[6]
local name, from_ms = schedule .. ":" .. backfill, tonumber(ARGV[7])
local channel, message = ARGV[14], ARGV[15]

-- Decide.
local r, known = get_schedule(schedule), get_backfill(name)
if not r or r.generation ~= generation then return { "GONE", "" } end
if known and decimal(known.generation) == generation then return { "KNOWN", encode_backfill(known) } end
local b = {
  name = name, generation = tonumber(generation), from_ms = from_ms, to_ms = tonumber(ARGV[8]), cursor_ms = from_ms - 1,
  not_before_ms = now_ms, every_ms = tonumber(ARGV[9]), most_open = tonumber(ARGV[10]), overlap = tonumber(ARGV[11]),
  again = tonumber(ARGV[12]), limit = tonumber(ARGV[13]), started_ms = now_ms, halted_ms = 0, ended_ms = 0,
  open = 0, opened = 0, passed = 0, failed = 0, unknown = "",
}
note_event("backfill_started", r, backfill)

-- Apply.
put_backfill(b)
write_events()
redis.call("PUBLISH", channel, message)
return { "OK", encode_backfill(b) }
