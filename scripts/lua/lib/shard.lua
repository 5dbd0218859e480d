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
-- Bits of a firing's flags; one more is in lib/run.lua, since a script has 200 local names.
local RELEASED, CANCEL_ASKED, CLAIMED_AGAIN, TASK_OWED = 1, 2, 4, 8
local NO_TOKEN = "0" -- of a schedule that nobody has claimed
local LAST_TOKEN, LAST_MS = 2 ^ 53 - 1, 253402300799999 -- numbers have gaps above; the year 9999 ends
-- Verdicts that scripts give by themselves.
local FIRED, OVERLAPPED, SKIPPED, SUPERSEDED = 1, 4, 6, 8

-- In a batch most numbers are met many times. So text_of has the text of those
-- that were asked for, by number, and number_of the number of a decimal text, up
-- to LAST_TOKEN, nil for every other text. Lua by itself would cut the
-- text of a number above 14 digits. Counts in between and tokens are rarely met
-- twice, and stay out.
local text_of = setmetatable({}, { __index = function(known, number)
  local text = string.format("%d", number)
  if number < 1024 or (number > 4294967296 and number < 1e14) then known[number] = text end
  return text
end })
local number_of = setmetatable({}, { __index = function(known, text)
  if #text > 16 or not string.find(text, "^%-?%d+$") then return nil end
  local number = tonumber(text)
  if number > LAST_TOKEN then return nil end
  known[text] = number
  return number
end })

local function decimal(number) return text_of[number] end

local function has_bit(bits, bit) return bits % (2 * bit) >= bit end

-- calendar_version is what the shard insists on.
local stored_calendars
local function calendar_version()
  stored_calendars = stored_calendars or tonumber(redis.call("HGET", META, "cal") or "0")
  return stored_calendars
end

-- old_calendars says whether a schedule of that policy was planned with
-- calendars that have changed.
local function old_calendars(policy, version)
  return has_bit(policy, USES_CALENDAR) and version < calendar_version()
end

local function firing_of(r, key) return r.id .. ":" .. r.generation .. ":" .. key end
