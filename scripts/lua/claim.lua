-- claim: grant due schedules of a shard, oldest first, each until a deadline.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  limit             at most this many
-- ARGV[5]  ttl_ms            length of each claim
-- ARGV[6]  audit_ms          when the auditor first looks at an intent, from now
-- ARGV[7]  audit_overlap_ms  the same for schedules with an overlap policy
--
-- Returns  {now_ms, next_due_ms | "", released, claims, damaged, calendars}
--          released: firing, queue, extra, ... that were buffered and are intents now; enqueue each
--          claims: schedule, generation, scheduled_ms, token, kind, version, again, redrives, fired, others, open, queue, ...
--          kind "F" enqueue it, an intent is recorded; "O" open firings forbid or delay it; "K" an operator asked
--          to skip it; "A" it has its verdict, only the next time is wanted. open lists open firings, without
--          the schedule, each followed by a comma; with "F" those that were asked to cancel. queue, with "F", is
--          that of the first claim, whatever was edited since: its task may be there
--          damaged: schedules whose record cannot be read; they are put aside for a minute
--          calendars: the version that the shard insists on, when one of the claimed uses calendars, else 0
-- Resend   safe, but what the first reply granted stays claimed until its deadline
-- Writes   due, st, fir, aud, opn, buf, meta, evt
-- Cost     O(limit), and the open lists of schedules with cancel_other
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
-- @include lib/write.lua
-- @include lib/skips.lua
-- @include lib/claimkind.lua

local limit, ttl_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local audit_ms, audit_overlap_ms = now_ms + tonumber(ARGV[6]), now_ms + tonumber(ARGV[7])
local claims, released, damaged, granted, calendars = {}, {}, {}, 0, 0

-- end_term resumes a schedule whose pause or cool-down is over.
local function end_term(r)
  if r.state ~= PAUSED and r.state ~= DISABLED then return end
  with_cold(r)
  if r.until_ms == 0 or r.until_ms > now_ms then return end
  r.until_ms, r.detail = 0, "by itself, its term is over"
  if r.state == DISABLED then set_state(r, PROBING) else resume(r) end
  follow(r, released)
end

local function grant(r, token, firing_id)
  local kind, again, redrives, others, open, queue = claim_kind(r, firing_id, audit_ms, audit_overlap_ms)
  set_token(r, token)
  hold(r, now_ms + ttl_ms)
  local n = #claims
  claims[n + 1], claims[n + 2], claims[n + 3], claims[n + 4] = r.id, r.generation, r.next_ms, token
  claims[n + 5], claims[n + 6], claims[n + 7], claims[n + 8] = kind, r.version, again, redrives
  claims[n + 9], claims[n + 10], claims[n + 11], claims[n + 12] = r.fired, others, open, queue
  if calendars == 0 and has_bit(r.policy, USES_CALENDAR) then calendars = calendar_version() end
end

-- put_aside keeps what cannot be claimed out of the way of the others, for a minute.
local function put_aside(id)
  moves[id] = unreadable[id] and decimal(now_ms + 60000) or false
  if unreadable[id] then damaged[#damaged + 1] = id end
end

-- Decide.
local ids = redis.call("ZRANGEBYSCORE", DUE, "-inf", now_ms, "LIMIT", 0, limit)
load_schedules(ids)
local wanted, firing_id_of = {}, {}
for _, id in ipairs(ids) do
  firing_id_of[id] = schedules[id] and due_firing(schedules[id]) or nil
  wanted[#wanted + 1] = firing_id_of[id]
end
load_firings(wanted)
load_open_lists(ids)
local token = #ids > 0 and tokens.grant(#ids)
for _, id in ipairs(ids) do
  local r = schedules[id]
  if r then end_term(r) end
  if not r then
    put_aside(id)
  elseif can_fire(r) and due_ms(r) <= now_ms then
    grant(r, decimal(token + granted), firing_id_of[id])
    granted = granted + 1
  else
    lapse(r)
  end
end

-- Apply.
write_all()
local first = redis.call("ZRANGE", DUE, 0, 0, "WITHSCORES")
return { now_ms, first[2] and math.ceil(math.min(tonumber(first[2]) or 2 ^ 53, 2 ^ 53)) or "", released, claims, damaged, calendars }
