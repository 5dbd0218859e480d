-- trigger: open one extra firing now. It moves no scheduled time; the auditor of a woken worker enqueues it.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  schedule
-- ARGV[5]  request            remembered; a repeat names the same firing
-- ARGV[6]  remember_ms        for how long
-- ARGV[7]  obey               "1": apply the overlap policy
-- ARGV[8]  audit_buffered_ms  when the auditor first looks at it if it is buffered, from now
-- ARGV[9]  channel            for waking
-- ARGV[10] message
--
-- Returns  {status, firing, queue, duplicate}
--          OK; BUFFERED it waits for an open firing; REFUSED by the overlap policy; GONE no such schedule
-- Resend   the same firing, with duplicate 1; a refused one is tried again
-- Writes   due, st, fir, aud, opn, buf, idem, meta, evt
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/event.lua
-- @include lib/count.lua
-- @include lib/state.lua
-- @include lib/open.lua
-- @include lib/request.lua
-- @include lib/write.lua

local keep_ms, obey, audit_buffered_ms = tonumber(ARGV[6]), ARGV[7] == "1", now_ms + tonumber(ARGV[8])
local channel, message = ARGV[9], ARGV[10]

-- bound is how many firings the schedule may buffer, nil when it does not
-- matter what is open.
local function bound(r)
  local policy = overlap_policy(r)
  if not obey or r.open == 0 or policy == ALLOW or policy == CANCEL_OTHER then return nil end
  if policy == SKIP_OVERLAP then return 0 end
  return policy == BUFFER_ONE and 1 or with_cold(r).buffer_limit
end

-- Decide.
local r = get_schedule(ARGV[4])
if not r then return { "GONE", "", "", 0 } end
prune_requests()
local id = firing_of(r, "m" .. ARGV[5])
if is_known(id) then
  local firing = get_firing(id)
  local waits = firing and firing.state == BUFFERED
  return { waits and "BUFFERED" or "OK", id, firing and firing.queue or r.queue, 1 }
end
local limit = bound(r)
if limit and r.buffered >= limit then return { "REFUSED", "", "", 0 } end
if limit then
  buffer_firing(r, id, new_firing(BUFFERED, 0, r.queue), audit_buffered_ms)
else
  if obey and overlap_policy(r) == CANCEL_OTHER then ask_cancel(r) end
  open_firing(r, id, new_firing(INTENT, 0, r.queue), now_ms)
  if r.state == PROBING and r.token == NO_TOKEN then place(r) end -- a probe goes alone
end

note_event("triggered", r, id)

-- Apply.
remember(id, keep_ms, "")
write_all()
if not limit then redis.call("PUBLISH", channel, message) end
return { limit and "BUFFERED" or "OK", id, r.queue, 0 }
