-- backfill_step: open the next firings of a backfill and move its cursor.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]   schedule
-- ARGV[5]   backfill
-- ARGV[6]   expected_cursor_ms  that the step was computed from
-- ARGV[7]   cursor_ms           from now on, 0 nothing is left
-- ARGV[8]   passed              scheduled times up to it that are not opened
-- ARGV[9..] scheduled times to open, oldest first
--
-- Returns  {status, record, released}
--          OK; STALE another step was made, or it was halted or ended; WAIT for the rate, for open firings or for a
--          schedule that is stopped; GONE no such backfill.
--          released: firing, queue, extra, ... that are intents; enqueue each
-- Resend   STALE, with the firings of the step that nobody enqueued yet
-- Writes   st, fir, aud, opn, bf, bfq, evt
-- Cost     O(scheduled times)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/event.lua
-- @include lib/count.lua
-- @include lib/state.lua
-- @include lib/open.lua
-- @include lib/backfill.lua
-- @include lib/write.lua

local schedule, backfill, expected_ms, cursor_ms = ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local opened, released = #ARGV - 8, {}
local r, b = get_schedule(schedule), get_backfill(schedule .. ":" .. backfill)

-- must_wait says whether the step comes too early.
local function must_wait()
  local stopped = r.state == PAUSED or r.state == DISABLED
  local sequential = b.overlap == BUFFER_ALL and opened > 0 and (r.open > 0 or opened > 1)
  return stopped or now_ms < b.not_before_ms or sequential or opened > math.max(0, b.most_open - b.open)
end

local function open_at(at)
  local id = firing_of(r, "b" .. backfill .. "." .. at)
  if b.overlap == SKIP_OVERLAP and r.open > 0 then
    b.passed = b.passed + 1
  else
    local firing = new_firing(INTENT, tonumber(at), r.queue)
    open_firing(r, id, firing, now_ms + RELEASE_AUDIT_MS)
    b.open, b.opened = b.open + 1, b.opened + 1
    extras.add_released(released, id, firing)
  end
end

-- Decide.
if not r or not b or r.generation ~= decimal(b.generation) then return { "GONE", "", released } end
if b.cursor_ms ~= expected_ms or b.halted_ms > 0 or b.ended_ms > 0 then
  for i = 9, #ARGV do
    local id = firing_of(r, "b" .. backfill .. "." .. ARGV[i])
    local firing = get_firing(id)
    if firing and firing.state == INTENT then extras.add_released(released, id, firing) end
  end
  return { "STALE", encode_backfill(b), released }
end
if must_wait() then return { "WAIT", encode_backfill(b), released } end
for i = 9, #ARGV do open_at(ARGV[i]) end
b.cursor_ms, b.passed, b.not_before_ms = cursor_ms, b.passed + tonumber(ARGV[8]), now_ms + opened * b.every_ms
if b.limit > 0 and b.opened >= b.limit then b.cursor_ms = 0 end
end_backfill(r, b)

-- Apply.
put_backfill(b)
write_all()
return { "OK", encode_backfill(b), released }
