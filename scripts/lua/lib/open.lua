-- Opening firings, buffering them, and releasing what was buffered.
local RELEASE_AUDIT_MS = 5000 -- when the auditor looks at what others wait for

-- open_firing records a firing that counts as open.
local function open_firing(r, id, firing, audit_ms)
  put_firing(id, firing, audit_ms)
  r.open = r.open + 1
  if overlap_policy(r) ~= ALLOW then set_open_list(r, add_item(open_list(r), item_of(r, id))) end
  change(r)
end

-- buffer_firing lets a firing wait. What the first one waits for is audited
-- soon: a plain consumer tells nobody that it has ended it.
local function buffer_firing(r, id, firing, audit_ms)
  put_firing(id, firing, audit_ms)
  if r.buffered == 0 then
    for _, open_id in ipairs(firing_ids(r, open_list(r))) do audits[open_id] = now_ms + RELEASE_AUDIT_MS end
  end
  set_buffer_list(r, add_item(buffer_list(r), item_of(r, id)))
  set_buffered(r, r.buffered + 1)
end

-- ask_to_end asks firings to end; the auditor looks at once.
local function ask_to_end(ids)
  for _, id in ipairs(ids) do
    local firing = get_firing(id)
    if firing and not has_bit(firing.flags, CANCEL_ASKED) then
      firing.flags = firing.flags + CANCEL_ASKED
      put_firing(id, firing, now_ms)
    end
  end
end

-- release turns the oldest buffered firing into an intent once nothing is open,
-- and tells the caller in released, who enqueues it.
local function release(r, released)
  while (r.state == ACTIVE or r.state == COMPLETED) and r.buffered > 0 and r.open == 0 do
    local item = string.match(buffer_list(r), "^([^,]+),")
    if not item then return set_buffered(r, 0) end
    set_buffer_list(r, remove_item(buffer_list(r), item))
    set_buffered(r, r.buffered - 1)
    local id = r.id .. ":" .. item
    local firing = get_firing(id)
    if firing and firing.state == BUFFERED then
      firing.state, firing.flags = INTENT, RELEASED
      open_firing(r, id, firing, now_ms + RELEASE_AUDIT_MS)
      extras.add_released(released, id, firing)
    end
  end
end

-- repeat_release names again what a lost reply released.
local function repeat_release(r, released)
  for _, id in ipairs(firing_ids(r, listed_open(r))) do
    local firing = get_firing(id)
    if firing and firing.state == INTENT and has_bit(firing.flags, RELEASED) then
      extras.add_released(released, id, firing)
    end
  end
end
