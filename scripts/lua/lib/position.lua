-- How firings are shown to auditors: twelve columns for each.

-- position relates a firing to the high-water mark of its schedule.
local function position(r, generation, at_ms)
  if not r or r.generation ~= generation then return "GONE" end
  return at_ms > r.high_water_ms and "PENDING" or "PASSED"
end

local function position_of(id)
  local schedule, generation, _, at_ms = split_firing(id)
  local r = get_schedule(schedule)
  return position(r, generation, at_ms), r
end

local function add_row(rows, id, firing)
  for _, value in ipairs({
    id, firing.state, position_of(id), firing.attempt, firing.redrives, firing.token, firing.lease_ms,
    firing.opened_ms, firing.queue, firing.flags, firing.worker, firing.extra,
  }) do
    rows[#rows + 1] = value
  end
end
