-- What a put does to the record of a schedule.

local function new_schedule(id)
  local r = {
    id = id, policy = 0, version = 0, next_ms = 0, not_before_ms = 0, high_water_ms = 0, token = NO_TOKEN,
    generation = decimal(tokens.grant(1)), open = 0, buffered = 0, fired = 0, range = "", queue = "", cold_text = "",
  }
  schedules[id] = r
  if unreadable[id] then -- what its lists name is of another generation
    set_open_list(r, "")
    set_buffer_list(r, "")
  end
  set_state(r, ACTIVE)
  return r
end

-- configure copies what the scripts need to know of the definition. Firings
-- that were opened under another overlap policy are counted, but not listed.
local function configure(r)
  if r.version > 0 then r.updated_ms = now_ms end
  r.version, r.queue = r.version + 1, ARGV[17]
  r.policy = tonumber(ARGV[18]) + (has_bit(r.policy, HAS_SKIPS) and HAS_SKIPS or 0)
  r.buffer_limit, r.max_failures, r.cool_down_ms = tonumber(ARGV[19]), tonumber(ARGV[20]), tonumber(ARGV[21])
  r.delay_ms, r.ends_ms, r.limit = tonumber(ARGV[22]), tonumber(ARGV[23]), tonumber(ARGV[24])
  if overlap_policy(r) == ALLOW and r.version > 1 then set_open_list(r, "") end
  change(r)
end

local function pause(r)
  if r.state ~= PAUSED then r.since_ms = now_ms end
  r.until_ms = 0
  set_state(r, PAUSED)
  redis.call("HDEL", OUTCOME, r.id .. ":p")
end

-- set_next replaces the pending time. A schedule with a delay waits for what is
-- open; one without a next time is completed, unless it is stopped.
local function set_next(r, next_ms, not_before_ms)
  if with_delay(r) and r.open > 0 then next_ms, not_before_ms = 0, 0 end
  r.next_ms, r.not_before_ms = next_ms, not_before_ms
  local runs_on = next_ms > 0 or with_delay(r)
  if runs_on and r.state == COMPLETED then set_state(r, ACTIVE) end
  if not runs_on and (r.state == ACTIVE or r.state == PROBING) then set_state(r, COMPLETED) end
end
