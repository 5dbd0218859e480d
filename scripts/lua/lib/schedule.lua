-- Records of schedules: fields that end with "|". Claim and complete need the
-- hot part; the cold part is carried along as text until somebody asks for it,
-- and is empty while all of it is zero. Fields may be added at the end of the
-- cold part: what an older script does not know it keeps. A record that cannot
-- be read counts as none, so that it stops its own schedule and no other; one with
-- a number of more than 16 characters is such, since neither scripts nor callers
-- can hold it.
--
-- Changes are collected and written once, see write_schedules.
local HOT = "^" .. string.rep("(%-?%d+)|", 11) .. "([^|]*)|([^|]*)|(.*)$"
local HOT_FORMAT = "%d|%d|%d|%d|%d|%d|%d|%s|%d|%d|%d|%s|%s|%s"
local COLD = "^" .. string.rep("([^|]*)|", 18) .. "(.*)$"
local COLD_SHAPE = "^" .. string.rep("%-?%d+|", 17) .. "[^|]*|"
local COLD_FORMAT = string.rep("%d|", 17) .. "%s|"
local COLD_ZERO = string.rep("0|", 17) .. "|"
local TOO_LONG = string.rep("[%d-]", 17)
local schedules, changed_schedules, unreadable = {}, {}, {}

local function decode_schedule(id, text)
  local state, policy, version, next_ms, not_before_ms, high_water_ms, token, generation,
    open, buffered, fired, range, queue, cold = string.match(text, HOT)
  local _, last = string.find(cold or "", COLD_SHAPE)
  if not cold or not last and cold ~= "" or not string.find(state, "^[1-5]$")
    or math.max(#policy, #version, #next_ms, #not_before_ms, #high_water_ms, #token, #generation, #open, #buffered,
      #fired) > 16 or last and string.find(string.sub(cold, 1, last), TOO_LONG) then
    unreadable[id] = true
    return false
  end
  return {
    id = id, state = tonumber(state), was = tonumber(state), policy = tonumber(policy), version = tonumber(version),
    next_ms = tonumber(next_ms), not_before_ms = tonumber(not_before_ms), high_water_ms = tonumber(high_water_ms),
    token = tonumber(token), generation = generation, -- compared and shown as text
    open = tonumber(open), buffered = tonumber(buffered), fired = tonumber(fired),
    range = range, -- the current verdict range, see lib/verdict.lua
    queue = queue, cold_text = cold,
  }
end

-- with_cold decodes the cold part, once.
local function with_cold(r)
  if r.history then return r end
  local text = r.cold_text == "" and COLD_ZERO or r.cold_text
  local f = { string.match(text, COLD) }
  r.history, r.unknown = f[18], f[19]
  for i = 1, 17 do f[i] = tonumber(f[i]) end
  r.failures, r.max_failures, r.cool_down_ms, r.until_ms, r.since_ms, r.buffer_limit,
    r.coalesced, r.missed, r.overlapped, r.others, r.runs, r.failed_runs, r.updated_ms,
    r.delay_ms, r.ends_ms, r.limit, r.ranges = unpack(f, 1, 17)
  return r
end

local function encode_schedule(r)
  local cold = r.cold_text
  if r.history then
    cold = string.format(COLD_FORMAT, r.failures, r.max_failures, r.cool_down_ms, r.until_ms, r.since_ms,
      r.buffer_limit, r.coalesced, r.missed, r.overlapped, r.others, r.runs, r.failed_runs, r.updated_ms,
      r.delay_ms, r.ends_ms, r.limit, r.ranges, r.history) .. r.unknown
    if cold == COLD_ZERO then cold = "" end
  end
  return string.format(HOT_FORMAT, r.state, r.policy, r.version, r.next_ms, r.not_before_ms, r.high_water_ms,
    r.token, r.generation, r.open, r.buffered, r.fired, r.range, r.queue, cold)
end

-- load_schedules reads many with one command; get_schedule then finds them.
local function load_schedules(ids)
  if #ids == 0 then return end
  local texts = redis.call("HMGET", SCHEDULE, unpack(ids))
  for i, id in ipairs(ids) do
    if schedules[id] == nil then schedules[id] = texts[i] and decode_schedule(id, texts[i]) or false end
  end
end

local function get_schedule(id)
  if schedules[id] == nil then load_schedules({ id }) end
  return schedules[id]
end

local function change(r) changed_schedules[r.id] = r end

local function overlap_policy(r) return r.policy % 8 end

local function write_schedules()
  local fields, n = {}, 0
  for id, r in pairs(changed_schedules) do
    fields[n + 1], fields[n + 2] = id, encode_schedule(r)
    n = n + 2
  end
  if n > 0 then redis.call("HSET", SCHEDULE, unpack(fields)) end
end
