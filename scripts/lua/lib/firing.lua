-- Records of open firings, the ledger: fields that end with "|", oldest first.
-- A firing is "schedule:generation:key"; key is the scheduled time, "m" and a
-- request (trigger), or "b", a backfill, "." and a scheduled time. The three
-- spaces cannot meet, and only the first is compared with the high-water mark.
-- A record that cannot be read counts as none. Changes are collected and
-- written once, see write_firings.
local FIRING_FIELDS = "^([^|]*)|" .. string.rep("(%-?%d+)|", 8) .. "([^|]*)|([^|]*)|([^|]*)|(.*)$"
local FIRING_FORMAT = "%s|%d|%d|%d|%d|%d|%d|%d|%d|%s|%s|%s|%s"
local firings, changed_firings, audits = {}, {}, {}

local function decode_firing(text)
  local state, attempt, token, lease_ms, redrives, at_ms, flags, opened_ms, begun_ms, owner, worker, queue, unknown =
    string.match(text, FIRING_FIELDS)
  if not unknown or math.max(#attempt, #token, #lease_ms, #redrives, #at_ms, #flags, #opened_ms, #begun_ms) > 16 then
    return false
  end
  return {
    state = state, attempt = tonumber(attempt), token = tonumber(token), lease_ms = tonumber(lease_ms),
    redrives = tonumber(redrives), at_ms = tonumber(at_ms), flags = tonumber(flags), opened_ms = tonumber(opened_ms),
    begun_ms = tonumber(begun_ms), owner = owner, worker = worker, queue = queue, unknown = unknown,
  }
end

local function encode_firing(f)
  return string.format(FIRING_FORMAT, f.state, f.attempt, f.token, f.lease_ms, f.redrives, f.at_ms, f.flags,
    f.opened_ms, f.begun_ms, f.owner, f.worker, f.queue, f.unknown)
end

local function new_firing(state, at_ms, queue)
  return { state = state, attempt = 0, token = 0, lease_ms = 0, redrives = 0, at_ms = at_ms, flags = 0,
    opened_ms = now_ms, begun_ms = 0, owner = "", worker = "", queue = queue, unknown = "" }
end

local function load_firings(ids)
  if #ids == 0 then return end
  local texts = redis.call("HMGET", FIRING, unpack(ids))
  for i, id in ipairs(ids) do
    if firings[id] == nil then firings[id] = texts[i] and decode_firing(texts[i]) or false end
  end
end

local function get_firing(id)
  if firings[id] == nil then load_firings({ id }) end
  return firings[id]
end

-- put_firing changes a record; without an audit time that stays as it is.
local function put_firing(id, firing, audit_ms)
  firings[id], changed_firings[id] = firing, firing
  if audit_ms then audits[id] = audit_ms end
end

local function drop_firing(id)
  firings[id], changed_firings[id], audits[id] = false, false, false
end

local function firing_of(r, key) return r.id .. ":" .. r.generation .. ":" .. key end

-- split_firing returns schedule, generation, key, and the scheduled time when
-- the key is one, otherwise 0.
local function split_firing(id)
  local schedule, generation, key = string.match(id, "^([^:]+):(%d+):(.+)$")
  return schedule, generation, key, tonumber(key) or 0
end

-- write_firings frees first, so that a full server can still settle.
local function write_firings()
  local dropped, unaudited, fields, scores = {}, {}, {}, {}
  for id, firing in pairs(changed_firings) do
    if firing then
      fields[#fields + 1] = id
      fields[#fields + 1] = encode_firing(firing)
    else
      dropped[#dropped + 1] = id
    end
  end
  for id, audit_ms in pairs(audits) do
    if audit_ms then
      scores[#scores + 1] = decimal(audit_ms)
      scores[#scores + 1] = id
    else
      unaudited[#unaudited + 1] = id
    end
  end
  if #dropped > 0 then redis.call("HDEL", FIRING, unpack(dropped)) end
  if #unaudited > 0 then redis.call("ZREM", AUDIT, unpack(unaudited)) end
  if #fields > 0 then redis.call("HSET", FIRING, unpack(fields)) end
  if #scores > 0 then redis.call("ZADD", AUDIT, unpack(scores)) end
end
