-- Records of schedules: fields that end with "|". Claim and complete need the
-- hot part; the cold part is carried along as text until somebody asks for it,
-- and is empty while all of it is zero. Fields may be added at the end of the
-- cold part: what an older script does not know it keeps. A record that cannot
-- be read counts as none, so that it stops its own schedule and no other; nobody
-- can hold a number of more than 16 characters. decodeRecord in pkg/redisstore
-- refuses the same, and neither looks at verdicts: see repair_records.
local schedule_record = {
  LONGEST = 65536, -- bytes
  HOT = "^" .. string.rep("([^|]*)|", 6) .. "(%-?%d+)|([1-9]%d*)|" .. string.rep("([^|]*)|", 5) .. "(.*)$",
  COLD = "^" .. string.rep("([^|]*)|", 18) .. "(.*)$",
  COLD_SHAPE = "^" .. string.rep("%-?%d+|", 17) .. "()[^|]*|",
  COLD_FORMAT = string.rep("%d|", 17) .. "%s|",
  COLD_ZERO = string.rep("0|", 17) .. "|",
  TOO_LONG = string.rep("[%d-]", 17),
}
local schedules, changed_schedules, unreadable = {}, {}, {}

local function decode_schedule(id, text)
  if #text > schedule_record.LONGEST then text = "" end -- none is as long; reading it would stop everybody else
  local state, policy, version, next_ms, not_before_ms, high_water_ms, token, generation,
    open, buffered, fired, range, queue, cold = string.match(text, schedule_record.HOT)
  local behind = cold == "" and 1 or string.match(cold or "", schedule_record.COLD_SHAPE)
  local held = behind and not string.find(string.sub(cold, 1, behind - 1), schedule_record.TOO_LONG) and #token <= 16
    and #generation <= 16 and tonumber(generation) <= LAST_TOKEN
  local r = held and {
    id = id, state = number_of[state], was = number_of[state], policy = number_of[policy], version = number_of[version],
    next_ms = number_of[next_ms], not_before_ms = number_of[not_before_ms], high_water_ms = number_of[high_water_ms],
    token = token, generation = generation, -- compared and shown as text
    open = number_of[open], buffered = number_of[buffered], fired = number_of[fired],
    range = range, queue = queue, cold_text = cold, -- the current verdict range, see lib/verdict.lua
  }
  local times = r and math.max(r.next_ms or 2 ^ 53, r.not_before_ms or 2 ^ 53, r.high_water_ms or 2 ^ 53) <= LAST_MS
  if times and r.state and r.state >= 1 and r.state <= 5 and r.policy and r.version and r.open and r.buffered and r.fired then return r end
  unreadable[id] = true
  return false
end

-- with_cold decodes the cold part, once.
local function with_cold(r)
  if r.history then return r end
  local f = { string.match(r.cold_text == "" and schedule_record.COLD_ZERO or r.cold_text, schedule_record.COLD) }
  r.history, r.unknown = f[18], f[19]
  for i = 1, 17 do f[i] = number_of[f[i]] or LAST_TOKEN end -- of 16 digits
  r.failures, r.max_failures, r.cool_down_ms, r.until_ms, r.since_ms, r.buffer_limit,
    r.coalesced, r.missed, r.overlapped, r.others, r.runs, r.failed_runs, r.updated_ms,
    r.delay_ms, r.ends_ms, r.limit, r.ranges = unpack(f, 1, 17)
  return r
end

local function encode_schedule(r)
  local claimed, cold = r.token, r.cold_text -- both are text
  if r.history then
    cold = string.format(schedule_record.COLD_FORMAT, r.failures, r.max_failures, r.cool_down_ms, r.until_ms, r.since_ms,
      r.buffer_limit, r.coalesced, r.missed, r.overlapped, r.others, r.runs, r.failed_runs, r.updated_ms,
      r.delay_ms, r.ends_ms, r.limit, r.ranges, r.history) .. r.unknown
    if cold == schedule_record.COLD_ZERO then cold = "" end
  end
  return text_of[r.state] .. "|" .. text_of[r.policy] .. "|" .. text_of[r.version] .. "|" .. text_of[r.next_ms] .. "|" ..
    text_of[r.not_before_ms] .. "|" .. text_of[r.high_water_ms] .. "|" .. claimed .. "|" .. r.generation .. "|" ..
    text_of[r.open] .. "|" .. text_of[r.buffered] .. "|" .. text_of[r.fired] .. "|" .. r.range .. "|" .. r.queue .. "|" .. cold
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
