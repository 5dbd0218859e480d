-- put: create a schedule, or replace its definition.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]   schedule
-- ARGV[5]   definition        not interpreted
-- ARGV[6]   request           remembered; a repeat changes nothing
-- ARGV[7]   remember_ms       for how long
-- ARGV[8]   keep_answer       "1": a repeat gets the first answer, otherwise the present one
-- ARGV[9]   expected_version  that is stored; 0 none
-- ARGV[10]  expected_next_ms  pending time that the plan was made for; checked with replace
-- ARGV[11]  replace           "1": the pending time is replaced
-- ARGV[12]  next_ms           with replace: the pending time from now on, 0 none
-- ARGV[13]  not_before_ms     the same with jitter
-- ARGV[14]  range             "verdict,why,count,first_ms,last_ms" of past times of the old spec, or ""
-- ARGV[15]  second_ms         the scheduled time of the old spec that follows the first of them
-- ARGV[16]  paused            "1": it is paused
-- ARGV[17]  queue
-- ARGV[18]  policy            overlap policy and bits, see lib/shard.lua
-- ARGV[19]  buffer_limit
-- ARGV[20]  max_failures
-- ARGV[21]  cool_down_ms
-- ARGV[22]  delay_ms
-- ARGV[23]  ends_ms           for a delay
-- ARGV[24]  limit             for a delay
-- ARGV[25]  channel           for waking
-- ARGV[26]  message
-- ARGV[27]  calendars         version of those that the plan was made with, for a definition that names one
-- ARGV[28]  removed           number of index members to remove, which follow, before those to add
-- ARGV[29..]  index members
--
-- Returns  {status, version, generation, next_ms, created}
--          OK; UNCHANGED the stored definition is equal and nothing is replaced; DUPLICATE request known; CONFLICT another version is stored;
--          RACE the pending time moved since the plan was made, or the calendars are older than the shard's: plan again
-- Resend   DUPLICATE, changes nothing
-- Writes   all but skp, bf, bfq
-- Cost     O(index members)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/event.lua
-- @include lib/count.lua
-- @include lib/state.lua
-- @include lib/token.lua
-- @include lib/verdict.lua
-- @include lib/open.lua
-- @include lib/run.lua
-- @include lib/backfill.lua
-- @include lib/settle.lua
-- @include lib/request.lua
-- @include lib/revise.lua
-- @include lib/wake.lua
-- @include lib/put.lua
-- @include lib/write.lua

local id, definition, request, keep_ms = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local expected_version, expected_next_ms = tonumber(ARGV[9]), tonumber(ARGV[10])
local replace, next_ms, released = ARGV[11] == "1", tonumber(ARGV[12]), {}
local paused, removed = ARGV[16] == "1", tonumber(ARGV[28])
local superseded, second_ms = decode_range(ARGV[14]), tonumber(ARGV[15])
local r = get_schedule(id)

local function answer(status, created)
  if not r then return { status, 0, 0, 0, created } end
  return { status, r.version, r.generation, r.next_ms, created }
end

-- Decide.
prune_requests()
if is_known(request) then
  local version, generation, first_next_ms, created = string.match(first_answer(request), "^(%d+)|(%d+)|(%d+)|(%d)$")
  if not version then return answer("DUPLICATE", 0) end
  return { "DUPLICATE", version, generation, first_next_ms, created }
end
if expected_version ~= (r and r.version or 0) then return answer("CONFLICT", 0) end
if old_calendars(tonumber(ARGV[18]), tonumber(ARGV[27])) then return answer("RACE", 0) end
if r and not replace and redis.call("HGET", DEFINITION, id) == definition then return answer("UNCHANGED", 0) end
if r and replace and r.next_ms ~= expected_next_ms then return answer("RACE", 0) end
local created = not r
r = r or new_schedule(id)
with_cold(r)
promise(r)
local passed = next_ms > 0 and next_ms ~= r.next_ms and next_ms <= r.high_water_ms
if replace and passed then return answer("RACE", 0) end
configure(r)
if paused then pause(r) end
if replace then
  revise(r, superseded, second_ms)
  set_next(r, next_ms, tonumber(ARGV[13]))
end
follow(r, released)
audit_now(released)
note_event(created and "created" or "updated", r, "version " .. r.version)

-- Apply.
local wake = wakes(r) or #released > 0
redis.call("HSET", DEFINITION, id, definition)
for i = 29, 28 + removed do redis.call("ZREM", LABEL, ARGV[i]) end
for i = 29 + removed, #ARGV do redis.call("ZADD", LABEL, 0, ARGV[i]) end
write_all()
local result = answer("OK", created and 1 or 0)
remember(request, keep_ms, ARGV[8] == "1" and string.format("%d|%s|%d|%d", unpack(result, 2, 5)) or "")
if wake then redis.call("PUBLISH", ARGV[25], ARGV[26]) end
return result
