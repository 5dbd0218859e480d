-- What repairs do to the lists of open and buffered firings.

-- listed_rightly is the list without the firings that are not as it says.
local function listed_rightly(r, list, is_right)
  local ids, kept = firing_ids(r, list), list
  load_firings(ids)
  for _, id in ipairs(ids) do
    if not firings[id] or not is_right(firings[id].state == BUFFERED) then kept = remove_item(kept, item_of(r, id)) end
  end
  return kept
end

-- by_age is the list in the order in which its firings were opened.
local function by_age(r, list)
  local ids, items = firing_ids(r, list), {}
  load_firings(ids)
  table.sort(ids, function(a, b)
    local one, other = firings[a], firings[b]
    if one and other and one.opened_ms ~= other.opened_ms then return one.opened_ms < other.opened_ms end
    return a < b
  end)
  for i, id in ipairs(ids) do items[i] = item_of(r, id) .. "," end
  return table.concat(items)
end

-- repair_listed lists an open firing where it must be.
local function repair_listed(r, id, firing)
  local item = item_of(r, id)
  if firing.state == BUFFERED then
    if contains(buffer_list(r), item) then return end
    set_buffer_list(r, by_age(r, add_item(buffer_list(r), item)))
    tell(id, "buf")
  elseif overlap_policy(r) ~= ALLOW and not contains(open_list(r), item) then
    set_open_list(r, by_age(r, add_item(open_list(r), item)))
    tell(id, "opn")
  end
end
