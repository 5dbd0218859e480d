-- What a trigger opens, and whether it may.
local BUFFER_LIMIT = 100 -- of buffer_all, where the schedule has none

-- bound is how many firings the schedule may buffer, nil when it does not
-- matter what is open.
local function bound(r, policy)
  if r.open == 0 or policy == ALLOW or policy == CANCEL_OTHER then return nil end
  if policy == SKIP_OVERLAP then return 0 end
  if policy == BUFFER_ONE then return 1 end
  local limit = with_cold(r).buffer_limit
  return limit > 0 and limit or BUFFER_LIMIT
end

-- open_items lists what is open, as far as the schedule's list and the caller
-- know it, and says whether that is all.
local function open_items(r)
  local candidates, list, known = firing_ids(r, listed_open(r)), "", 0
  local own = firing_of(r, "")
  for i = 15, #ARGV do candidates[#candidates + 1] = ARGV[i] end
  load_firings(candidates)
  for _, id in ipairs(candidates) do
    local firing = firings[id]
    local is_open = firing and firing.state ~= BUFFERED and string.sub(id, 1, #own) == own
    if is_open and not contains(list, item_of(r, id)) then
      list, known = add_item(list, item_of(r, id)), known + 1
    end
  end
  return list, known >= r.open
end

-- trigger_extra is what the firing carries, see lib/extra.lua; all are text.
local function trigger_extra(at, waits, bytes, payload)
  if at == "0" and bytes == "-1" and waits == "" then return "" end
  return at .. "|" .. waits .. "|" .. bytes .. "|" .. payload .. "|"
end
