-- The keys of a shard, in the order in which every script receives them, and
-- the words that its records use.
--
-- due     zset    schedule -> when it is due, claim deadline + 0.5 when claimed, end of a pause or cool-down
-- def     hash    schedule -> definition, opaque here
-- st      hash    schedule -> record, see lib/schedule.lua
-- fir     hash    firing -> record of an open firing, see lib/firing.lua
-- aud     zset    firing -> next audit time; the members of fir
-- out     hash    schedule -> last run that ended, see lib/run.lua; with ":r" what became of it since, with ":p"
--                 who paused it, with ":e" why the last enqueue failed; ":" and a request -> first answer
-- meta    hash    token (last granted), cal (calendar version), and counters: see lib/count.lua
-- idem    zset    request -> when it is forgotten
-- opn     hash    schedule -> its open firings, for an overlap policy other than allow
-- buf     hash    schedule -> its buffered firings, oldest first
-- skp     hash    schedule -> scheduled times that an operator asked to skip
-- bf      hash    backfill -> cursor
-- bfq     zset    backfill -> when its next step may run
-- lbl     zset    index of IDs, labels and calendars; all scores 0
-- evt     stream  what happened, capped
local DUE, DEFINITION, SCHEDULE, FIRING, AUDIT, OUTCOME, META, REQUEST, OPEN, BUFFER,
  SKIP, BACKFILL, BACKFILL_DUE, LABEL, EVENT = unpack(KEYS)

-- States of a schedule. A disabled one whose cool-down is over is probing: it
-- fires once, and that run decides.
local ACTIVE, PAUSED, DISABLED, COMPLETED, PROBING = 1, 2, 3, 4, 5
-- Overlap policies.
local ALLOW, SKIP_OVERLAP, BUFFER_ONE, BUFFER_ALL, CANCEL_OTHER = 0, 1, 2, 3, 4
-- Bits of a schedule's policy beside the overlap policy.
local HAS_SKIPS, USES_CALENDAR, HAS_DELAY = 8, 16, 32
-- States of a firing.
local INTENT, ENQUEUED, RUNNING, WAITING, BUFFERED = "I", "E", "R", "W", "B"
-- Bits of a firing's flags; TASK_OWED is the highest, so that "% TASK_OWED" takes it off.
local RELEASED, CANCEL_ASKED, CLAIMED_AGAIN, TASK_OWED = 1, 2, 4, 8
-- Verdicts that scripts give by themselves.
local FIRED, OVERLAPPED, SKIPPED, SUPERSEDED = 1, 4, 6, 8

-- Numbers above 14 digits lose their tail when Lua turns them into text.
local function decimal(number) return string.format("%d", number) end

local function has_bit(bits, bit) return math.floor(bits / bit) % 2 == 1 end

-- calendar_version is what the shard insists on.
local function calendar_version() return tonumber(redis.call("HGET", META, "cal") or "0") end

-- old_calendars says whether a schedule of that policy was planned with
-- calendars that have changed.
local function old_calendars(policy, version)
  return has_bit(policy, USES_CALENDAR) and version < calendar_version()
end
