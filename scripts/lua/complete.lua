-- complete: settle claims with what was decided, and move each schedule on.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  audit_buffered_ms  when the auditor first looks at a firing that is buffered, from now
-- ARGV[5]  calendars          version of the calendars used
-- ARGV[6..]  twelve for each claim: schedule, token, scheduled_ms, decision, why, next_ms, not_before_ms, and a
--          range of later scheduled times: verdict, why, first_ms, last_ms, count (last_ms 0: none).
--          decision "E" enqueued; "O" apply the overlap policy; "A" only move on; otherwise the number of the
--          verdict why it does not fire. next_ms 0: nothing left, the schedule is completed
--
-- Returns  {released, outcomes}
--          OK; ALREADY done before; STALE claim lost; GONE schedule deleted; BADNEXT next is not after what it
--          follows; MUSTFIRE it may be in its queue, only E and A are accepted; CAL calendars are older than the shard's
-- Resend   answers ALREADY, changes nothing
-- Writes   due, st, fir, aud, opn, buf, skp, meta
-- Cost     O(claims)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/state.lua
-- @include lib/verdict.lua
-- @include lib/open.lua
-- @include lib/run.lua
-- @include lib/settle.lua
-- @include lib/skips.lua
-- @include lib/decision.lua
-- @include lib/write.lua

local audit_ms, calendars = now_ms + tonumber(ARGV[4]), tonumber(ARGV[5])
local completions, ids, wanted, outcomes, released = {}, {}, {}, {}, {}
for i = 6, #ARGV, 12 do
  local n = {}
  for j = 1, 12 do n[j] = tonumber(ARGV[i + j - 1]) or 0 end
  completions[#completions + 1] = {
    id = ARGV[i], token = n[2], at_ms = n[3], at = ARGV[i + 2], decision = ARGV[i + 3], verdict_given = n[4],
    why = n[5], next_ms = n[6], not_before_ms = n[7],
    verdict = n[8], range_why = n[9], first_ms = n[10], last_ms = n[11], count = n[12],
  }
  ids[#ids + 1] = ARGV[i]
end

-- Decide.
load_schedules(ids)
for _, c in ipairs(completions) do
  local r = schedules[c.id]
  c.firing_id = r and firing_of(r, c.at)
  if r and c.decision ~= "E" then wanted[#wanted + 1] = c.firing_id end
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
