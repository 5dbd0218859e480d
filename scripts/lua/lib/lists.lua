-- Lists of a schedule's open and buffered firings: "generation:key,", oldest
-- first. They let an overlap policy name what is open without a search.
local open_lists, changed_open, buffer_lists, changed_buffers = {}, {}, {}, {}

local function listed(cache, key, id)
  if cache[id] == nil then cache[id] = redis.call("HGET", key, id) or "" end
  return cache[id]
end

local function open_list(r) return listed(open_lists, OPEN, r.id) end
local function buffer_list(r) return listed(buffer_lists, BUFFER, r.id) end

-- listed_open is the list where one is kept.
local function listed_open(r) return overlap_policy(r) == ALLOW and "" or open_list(r) end

-- load_open_lists reads those of all schedules that keep one.
local function load_open_lists(ids)
  local wanted = {}
  for _, id in ipairs(ids) do
    local r = schedules[id]
    if r and overlap_policy(r) ~= ALLOW and open_lists[id] == nil then wanted[#wanted + 1] = id end
  end
  if #wanted == 0 then return end
  local lists = redis.call("HMGET", OPEN, unpack(wanted))
  for i, id in ipairs(wanted) do open_lists[id] = lists[i] or "" end
end

-- item_of is what a list says of a firing.
local function item_of(r, firing_id) return string.sub(firing_id, #r.id + 2) end

-- items are what stands before the commas of a list. A pattern would take time
-- by the square of what has no comma.
local function items(list)
  local all, first = {}, 1
  while true do
    local comma = string.find(list, ",", first, true)
    if not comma then return all end
    if comma > first then all[#all + 1] = string.sub(list, first, comma - 1) end
    first = comma + 1
  end
end

-- firing_ids are what a list names.
local function firing_ids(r, list)
  local ids = items(list)
  for i, item in ipairs(ids) do ids[i] = r.id .. ":" .. item end
  return ids
end

local function contains(list, item) return string.find("," .. list, "," .. item .. ",", 1, true) ~= nil end

local function add_item(list, item)
  if contains(list, item) then return list end
  return list .. item .. ","
end

local function remove_item(list, item)
  local first, last = string.find("," .. list, "," .. item .. ",", 1, true)
  if not first then return list end
  return string.sub(list, 1, first - 1) .. string.sub(list, last)
end

local function set_open_list(r, list) open_lists[r.id], changed_open[r.id] = list, true end
local function set_buffer_list(r, list) buffer_lists[r.id], changed_buffers[r.id] = list, true end

local function write_list(key, lists, changed)
  local emptied, fields = {}, {}
  for id in pairs(changed) do
    if lists[id] == "" then
      emptied[#emptied + 1] = id
    else
      fields[#fields + 1] = id
      fields[#fields + 1] = lists[id]
    end
  end
  if #emptied > 0 then redis.call("HDEL", key, unpack(emptied)) end
  if #fields > 0 then redis.call("HSET", key, unpack(fields)) end
end

local function write_lists()
  write_list(OPEN, open_lists, changed_open)
  write_list(BUFFER, buffer_lists, changed_buffers)
end
