-- complete: settle claims with what was decided, and move each schedule on.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  audit_buffered_ms  when the auditor first looks at a firing that is buffered, from now
-- ARGV[5]  calendars          version of the calendars used
-- ARGV[6..]  eight for each claim: schedule, token, scheduled_ms, decision, why, next_ms, not_before_ms, and a
--          range "verdict,why,count,first_ms,last_ms" of later scheduled times that get one verdict, or "".
--          decision "E" enqueued; "O" apply the overlap policy; "A" only move on; otherwise the number of the
--          verdict why it does not fire. next_ms 0: nothing left, the schedule is completed
--
-- Returns  {released, outcomes}
--          OK; ALREADY done before; STALE claim lost; GONE schedule deleted; BADNEXT next is not after what it
--          follows; MUSTFIRE it may be in its queue, only E and A are accepted; CAL calendars are older than the shard's
-- Resend   answers ALREADY, changes nothing
-- Writes   due, st, fir, aud, opn, buf, skp, meta, evt
-- Cost     O(claims)
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
-- @include lib/skips.lua
-- @include lib/decision.lua
-- @include lib/write.lua

local audit_ms, calendars = now_ms + tonumber(ARGV[4]), tonumber(ARGV[5])
local completions, ids, wanted, outcomes, released = {}, {}, {}, {}, {}
for i = 6, #ARGV, 8 do
  local n = #ids + 1
  ids[n], completions[n] = ARGV[i], {
    id = ARGV[i], token = ARGV[i + 1], at = ARGV[i + 2], at_ms = number_of[ARGV[i + 2]],
    decision = ARGV[i + 3], why = number_of[ARGV[i + 4]],
    next_ms = number_of[ARGV[i + 5]], not_before_ms = number_of[ARGV[i + 6]], range = decode_range(ARGV[i + 7]),
  }
end

-- Decide.
load_schedules(ids)
for _, c in ipairs(completions) do
  local r = schedules[c.id]
  if r and c.decision ~= "E" then
    c.firing_id = firing_of(r, c.at)
    wanted[#wanted + 1] = c.firing_id
  end
end
load_firings(wanted)
for i, c in ipairs(completions) do
  local r, firing = schedules[c.id], firings[c.firing_id or ""]
  outcomes[i] = refusal(r, c, firing, calendars) or "OK"
  if outcomes[i] == "OK" then
    decide(r, c, c.firing_id, firing, audit_ms)
    move_on(r, c, released)
  end
end

-- Apply.
write_all()
return { released, outcomes }
