-- pause: stop new claims of a schedule. A claimed firing stands: it is enqueued by its claimer or the auditor.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  schedule
-- ARGV[5]  until_ms  when it resumes by itself, 0: not
-- ARGV[6]  note      who and why, not interpreted
-- ARGV[7]  channel   for waking
-- ARGV[8]  message
--
-- Returns  {OK | GONE, generation, number of open firings, list of them}; the list is kept for overlap policies only
-- Resend   safe
-- Writes   due, st, out, meta, evt
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
-- @include lib/wake.lua
-- @include lib/write.lua

local until_ms, note = tonumber(ARGV[5]), ARGV[6]
local channel, message = ARGV[7], ARGV[8]

-- Decide.
local r = get_schedule(ARGV[4])
if not r then return { "GONE", 0, 0, "" } end
with_cold(r)
promise(r)
if r.state ~= PAUSED then r.since_ms = now_ms end
set_state(r, PAUSED)
r.until_ms, r.detail = until_ms, note
place(r)

-- Apply.
local wake = wakes(r)
redis.call("HSET", OUTCOME, r.id .. ":p", note)
write_all()
if wake then redis.call("PUBLISH", channel, message) end
return { "OK", r.generation, r.open, open_list(r) }
