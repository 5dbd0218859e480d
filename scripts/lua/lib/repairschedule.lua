-- What repair_schedules does to one schedule.
local dropped_names, added_names = {}, {}

-- repair_place puts r where its record says. The deadline of a claim stands in
-- the index only: where that cannot be one, the claim gets a new one, which
-- its owner's next renewal replaces.
local function repair_place(r, grace_ms, longest_ms)
  local score = score_of(DUE, r.id)
  if r.token ~= NO_TOKEN then
    if score and score % 1 == 0.5 and score <= now_ms + longest_ms then return end
    hold(r, now_ms + grace_ms)
  else
    place(r)
    if score == (moves[r.id] and tonumber(moves[r.id]) or nil) then
      moves[r.id] = nil
      return
    end
  end
  tell(r.id, "due")
end

-- repair_lists strikes out what the lists of r name wrongly, and lets the
-- policy say whether there are times to skip.
local function repair_lists(r)
  local list, waiting = open_list(r), buffer_list(r)
  local open = overlap_policy(r) == ALLOW and "" or listed_rightly(r, list, function(buffered) return not buffered end)
  local buffer = listed_rightly(r, waiting, function(buffered) return buffered end)
  if open ~= list then
    set_open_list(r, open)
    tell(r.id, "opn")
  end
  if buffer ~= waiting then
    set_buffer_list(r, buffer)
    tell(r.id, "buf")
  end
  local skips = redis.call("HGET", SKIP, r.id) or ""
  if (skips ~= "") ~= has_bit(r.policy, HAS_SKIPS) then
    set_skips(r, skips, "")
    tell(r.id, "skp")
  end
end

-- repair_names sees to the members of the index of names: those wanted are
-- there, the others are not.
local function repair_names(id, names, wanted)
  for _, name in ipairs(names) do
    if (redis.call("ZSCORE", LABEL, name) and true or false) ~= wanted then
      local changes = wanted and added_names or dropped_names
      changes[#changes + 1] = name
      tell(id, "lbl")
    end
  end
end

local function write_names()
  for _, name in ipairs(dropped_names) do redis.call("ZREM", LABEL, name) end
  for _, name in ipairs(added_names) do redis.call("ZADD", LABEL, 0, name) end
end
