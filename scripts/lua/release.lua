-- release: hand a claim back, so that another worker takes it.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  schedule
-- ARGV[5]  token
-- ARGV[6]  not_before_ms  0: at once
-- ARGV[7]  failed         "1": the enqueue failed, which counts for the breaker
-- ARGV[8]  error          with failed
--
-- Returns  OK; STALE the claim was not held any more
-- Resend   answers STALE, changes nothing
-- Writes   due, st, out, meta, evt; an intent stays, so it fires when it is claimed again
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
-- @include lib/write.lua

local token, not_before_ms, failed = ARGV[5], tonumber(ARGV[6]), ARGV[7] == "1"

-- Decide.
local r = get_schedule(ARGV[4])
if not r or token == NO_TOKEN or r.token ~= token then return "STALE" end
r.not_before_ms = not_before_ms
if failed and count_failure(r) then
  r.not_before_ms = 0
else
  set_token(r, NO_TOKEN)
  place(r)
end

-- Apply.
if failed then redis.call("HSET", OUTCOME, r.id .. ":e", ARGV[8]) end
write_all()
runs.write()
return "OK"
