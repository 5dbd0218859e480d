-- What repair_records does to the record of one schedule. Nothing in it decides
-- what fires: the mark, the pending time and the counts of what is open stay.
local UNREADABLE = 9 -- verdict of scheduled times whose own could not be read any more

-- readable returns a range that can be one. readRange in pkg/redisstore draws
-- the same line.
local function readable(text)
  local v = decode_range(text)
  local numbers = v and v.verdict and v.why and v.count and v.first_ms and v.last_ms
  return numbers and v.verdict > 0 and v.first_ms <= v.last_ms and v.last_ms <= LAST_MS and v
end

-- stand_in covers what lies between two ranges, and is nothing where they meet.
local function stand_in(ranges, first_ms, last_ms)
  if first_ms > last_ms then return end
  ranges[#ranges + 1] = decimal(UNREADABLE) .. ",0,0," .. decimal(first_ms) .. "," .. decimal(last_ms)
end

-- readable_ranges are those of r, oldest first, with others in place of what
-- cannot be read. What stood before the mark is covered from the creation on.
local function readable_ranges(r)
  local ranges, lost = {}, false
  local last_ms = math.max(0, math.min(math.floor(tonumber(r.generation) / 1000), r.high_water_ms) - 1)
  local closed = r.history .. (string.find(r.history, "[^;]$") and ";" or "")
  for text in string.gmatch(closed .. r.range .. ";", "([^;]*);") do
    local v = readable(text)
    if v then
      if lost then stand_in(ranges, last_ms + 1, v.first_ms - 1) end
      ranges[#ranges + 1], last_ms, lost = text, v.last_ms, false
    else
      lost = true
    end
  end
  if lost then stand_in(ranges, last_ms + 1, r.high_water_ms) end
  return ranges
end

-- repair_verdicts makes the ranges readable and counts them. It leaves alone
-- what a mark that no clock explains passed over: Check tells of that.
local function repair_verdicts(r, ahead_ms)
  local never = r.range == "" and r.history == "" and r.high_water_ms <= 0
  if r.high_water_ms > now_ms + ahead_ms or never and r.ranges == 0 then return false end
  local history, range, count = r.history, r.range, r.ranges
  local ranges = never and {} or readable_ranges(r)
  r.range = table.remove(ranges) or ""
  while #ranges > HISTORY do table.remove(ranges, 1) end
  r.ranges, r.history = #ranges, #ranges > 0 and table.concat(ranges, ";") .. ";" or ""
  return r.history ~= history or r.range ~= range or r.ranges ~= count
end

-- repair_times forgets times that cannot be: when a pause ends, and two that
-- are for display.
local function repair_times(r)
  local changed = false
  for _, field in ipairs({ "until_ms", "since_ms", "updated_ms" }) do
    if r[field] > LAST_MS then r[field], changed = 0, true end
  end
  return changed
end

-- repair_settings makes r repeat its definition, which ARGV tells of from there
-- on; one that was put since it was read says so itself.
local function repair_settings(r, at)
  if r.generation ~= ARGV[at] or r.version ~= tonumber(ARGV[at + 1]) then return false end
  local policy = tonumber(ARGV[at + 3]) + (has_bit(r.policy, HAS_SKIPS) and HAS_SKIPS or 0)
  local changed = r.queue ~= ARGV[at + 2] or r.policy ~= policy
  r.queue, r.policy = ARGV[at + 2], policy
  for i, field in ipairs({ "buffer_limit", "max_failures", "cool_down_ms", "delay_ms", "ends_ms", "limit" }) do
    local value = tonumber(ARGV[at + 3 + i])
    if r[field] ~= value then r[field], changed = value, true end
  end
  return changed
end
