-- What completing a claim does to its schedule. A completion c has the fields
-- that complete.lua reads from ARGV.

-- refusal says why a completion changes nothing, or nil.
local function refusal(r, c, firing, calendars)
  if not r then return "GONE" end
  if c.token == NO_TOKEN or r.token ~= c.token or r.next_ms ~= c.at_ms then
    return r.high_water_ms >= c.at_ms and "ALREADY" or "STALE"
  end
  local range = c.range
  if range and (range.first_ms <= c.at_ms or range.first_ms > range.last_ms) then return "BADNEXT" end
  if c.next_ms ~= 0 and c.next_ms <= (range and range.last_ms or c.at_ms) then return "BADNEXT" end
  if c.decision == "A" and c.at_ms > r.high_water_ms and not firing then return "BADNEXT" end
  if old_calendars(r.policy, calendars) then return "CAL" end
  local fires = c.decision == "E" or c.decision == "A"
  if firing and firing.state == INTENT and has_bit(firing.flags, CLAIMED_AGAIN) and not fires then return "MUSTFIRE" end
end

-- apply_overlap buffers the firing, or gives the verdict that it overlaps.
local function apply_overlap(r, c, id, audit_ms)
  if c.at_ms <= r.high_water_ms then return end
  if contains(skip_list(r), c.at) then -- asked for since it was claimed
    set_skips(r, skip_list(r), c.at)
    return advance(r, c.at_ms, SKIPPED, 0)
  end
  local policy, bound = overlap_policy(r), 0
  if policy == BUFFER_ONE then bound = 1 end
  if policy == BUFFER_ALL then bound = with_cold(r).buffer_limit end
  if r.buffered < bound then
    buffer_firing(r, id, new_firing(BUFFERED, c.at_ms, r.queue), audit_ms)
    advance(r, c.at_ms, FIRED, 1)
  else
    advance(r, c.at_ms, OVERLAPPED, bound > 0 and 1 or 0)
  end
end

-- decide gives the claimed scheduled time its verdict. The ledger record of an
-- enqueued firing stays as claim wrote it: the auditor proves it.
local function decide(r, c, id, firing, audit_ms)
  if c.decision == "E" or c.decision == "A" then return advance(r, c.at_ms, FIRED, 0) end
  if firing and firing.state == INTENT then withdraw(r, id, firing) end
  if c.decision == "O" then return apply_overlap(r, c, id, audit_ms) end
  local verdict = tonumber(c.decision)
  if verdict == SKIPPED then set_skips(r, skip_list(r), c.at) end
  advance(r, c.at_ms, verdict, c.why)
end

-- move_on makes the next scheduled time the pending one, unless it was buffered
-- just now and is the last that may fire.
local function move_on(r, c, released)
  if c.range then advance_range(r, c.range) end
  r.next_ms, r.not_before_ms = c.next_ms, c.not_before_ms
  set_token(r, NO_TOKEN)
  local waits = with_delay(r) and not limit_reached(r)
  if waits or c.decision == "O" and limit_reached(r) then r.next_ms, r.not_before_ms = 0, 0 end
  if r.next_ms == 0 and not waits then set_state(r, COMPLETED) end
  follow(r, released)
end
