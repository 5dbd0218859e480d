-- trigger: open one extra firing now. It moves no scheduled time; the auditor of a woken worker enqueues it.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  schedule
-- ARGV[5]  request            remembered; a repeat names the same firing
-- ARGV[6]  remember_ms        for how long
-- ARGV[7]  overlap            "own": apply the schedule's policy; otherwise the number of the policy that is applied
-- ARGV[8]  audit_buffered_ms  when the auditor first looks at it if it is buffered, from now
-- ARGV[9]  channel            for waking
-- ARGV[10] message
-- ARGV[11] at_ms              the scheduled time that it stands for, 0 none
-- ARGV[12] bytes              length of the payload, -1: that of the definition is used
-- ARGV[13] payload
-- ARGV[14] digest             of at_ms and payload, "" when there is neither
-- ARGV[15..] open firings that the caller found, for cancel_other
--
-- Returns  {status, firing, queue, other, duplicate}
--          OK; BUFFERED it waits for an open firing; REFUSED by the overlap policy; GONE no such schedule; LOOK open
--          firings that cancel_other is to end are not listed: find them, call again. other 1: what a duplicate asks
--          for is not what the first call asked for, which stands
-- Resend   the same firing, with duplicate 1; a refused one is tried again
-- Writes   due, st, fir, aud, opn, buf, idem, out, meta, evt
-- Cost     O(firings that it asks to end)
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
-- @include lib/request.lua
-- @include lib/trigger.lua
-- @include lib/write.lua

local keep_ms, audit_buffered_ms, channel, message = tonumber(ARGV[6]), now_ms + tonumber(ARGV[8]), ARGV[9], ARGV[10]
local at_ms, bytes, payload, digest = ARGV[11], ARGV[12], ARGV[13], ARGV[14]

-- Decide.
local r = get_schedule(ARGV[4])
if not r then return { "GONE", "", "", 0, 0 } end
prune_requests()
local id = firing_of(r, "m" .. ARGV[5])
if is_known(id) then
  local firing = get_firing(id)
  local waits = firing and firing.state == BUFFERED
  return { waits and "BUFFERED" or "OK", id, firing and firing.queue or r.queue, first_answer(id) == digest and 0 or 1, 1 }
end
local policy = ARGV[7] == "own" and overlap_policy(r) or tonumber(ARGV[7])
local limit, waits, all = bound(r, policy), "", true
if limit and r.buffered >= limit then return { "REFUSED", "", "", 0, 0 } end
if policy == CANCEL_OTHER and r.open > 0 then waits, all = open_items(r) end
if not all then return { "LOOK", "", "", 0, 0 } end
ask_to_end(firing_ids(r, waits))
local firing = new_firing(limit and BUFFERED or INTENT, 0, r.queue)
firing.extra = trigger_extra(at_ms, waits, bytes, payload)
if limit then
  buffer_firing(r, id, firing, audit_buffered_ms)
else
  open_firing(r, id, firing, now_ms)
  if r.state == PROBING and r.token == NO_TOKEN then place(r) end -- a probe goes alone
end

note_event("triggered", r, id)

-- Apply.
remember(id, keep_ms, digest)
write_all()
if not limit then redis.call("PUBLISH", channel, message) end
return { limit and "BUFFERED" or "OK", id, r.queue, 0, 0 }
