-- recount_firings: count again what a schedule has open and buffered.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  schedule
-- ARGV[5]  expected   its record, as it was before the ledger was read
-- ARGV[6]  backfills  how many of its backfills follow
-- ARGV[7..]  those, then every firing of it that the ledger held. Whatever opens or closes a firing changes the
--          record, so that one which is as expected says that no other firing is open
--
-- Returns  {OK | RACE, schedule, key that was repaired, ...}; RACE: it changed meanwhile, read the ledger again
-- Resend   RACE, or safe when nothing was wrong
-- Writes   st, opn, buf, meta, due, fir, aud, bf, bfq, evt
-- Cost     O(firings)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/firingid.lua
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
-- @include lib/wake.lua
-- @include lib/write.lua

local id, expected, backfills = ARGV[4], ARGV[5], tonumber(ARGV[6])
local ids, open_of, answer, released = {}, {}, { "OK" }, {}
for i = 7 + backfills, #ARGV do ids[#ids + 1] = ARGV[i] end

-- Decide.
if redis.call("HGET", SCHEDULE, id) ~= expected then return { "RACE" } end
local r, open, buffered = get_schedule(id), 0, 0
if not r then return { "RACE" } end
for _, firing_id in ipairs(ids) do
  local _, generation, key = split_firing(firing_id)
  local firing = generation == r.generation and get_firing(firing_id)
  local backfill = string.match(key or "", "^b([^.]+)%.")
  if firing and firing.state == BUFFERED then buffered = buffered + 1 end
  if firing and firing.state ~= BUFFERED then open = open + 1 end
  if firing and backfill then open_of[backfill] = (open_of[backfill] or 0) + 1 end
end
if r.open ~= open or r.buffered ~= buffered then
  r.open = open
  set_buffered(r, buffered)
  follow(r, released)
  audit_now(released)
  answer[#answer + 1], answer[#answer + 2] = id, "st"
end

-- Apply.
for i = 7, 6 + backfills do
  local b = get_backfill(ARGV[i])
  local counted = b and decimal(b.generation) == r.generation and (open_of[string.sub(ARGV[i], #id + 2)] or 0)
  if counted and counted ~= b.open then
    b.open = counted
    end_backfill(r, b)
    put_backfill(b)
    answer[#answer + 1], answer[#answer + 2] = ARGV[i], "bf"
  end
end
write_all()
return answer
