-- backfill_due: name backfills whose next step may run, and hide them for a while.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  limit    at most this many
-- ARGV[5]  hide_ms  when they are named again if nothing happens, from now
--
-- Returns  {now_ms, next_due_ms | "", list of schedule:backfill and record}
--          Those of a schedule that is paused or disabled wait and are not named
-- Resend   safe, but what the first reply named stays hidden
-- Writes   bfq; bf when it forgets one that ended or whose schedule is gone
-- Cost     O(limit)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/event.lua
-- @include lib/backfill.lua

local limit, hide_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local due = {}

-- over says whether a backfill that is looked at is to be forgotten.
local function over(b, r)
  return not r or r.generation ~= decimal(b.generation) or b.halted_ms > 0 or b.ended_ms > 0
end

-- Decide.
local names = redis.call("ZRANGEBYSCORE", BACKFILL_DUE, "-inf", now_ms, "LIMIT", 0, limit)
for _, name in ipairs(names) do
  local id = string.match(name, "^([^:]+)")
  local r, b, damaged = get_schedule(id), get_backfill(name)
  if not damaged and (not b or over(b, r) and not unreadable[id]) then
    drop_backfill(name)
  elseif damaged then
    redis.call("ZADD", BACKFILL_DUE, now_ms + hide_ms, name) -- until repair_backfills removes it
  else
    redis.call("ZADD", BACKFILL_DUE, now_ms + hide_ms, name)
    local stopped = not r or r.state == PAUSED or r.state == DISABLED
    if not stopped and b.cursor_ms > 0 then
      due[#due + 1] = name
      due[#due + 1] = encode_backfill(b)
    end
  end
end

-- Apply.
local first = redis.call("ZRANGE", BACKFILL_DUE, 0, 0, "WITHSCORES")
return { now_ms, first[2] and math.ceil(math.min(tonumber(first[2]) or 2 ^ 53, 2 ^ 53)) or "", due }
