-- Records of open firings, the ledger: fields that end with "|", oldest first.
-- What a trigger gave it stands behind them, see lib/extra.lua.
-- A record that cannot be read counts as none, and so does one that is longer
-- than any can be: reading it would stop everybody else. Changes are collected and
-- written once, see write_firings.
local FIRING_FIELDS = "^([IERWB])|" .. string.rep("([^|]*)|", 11) .. "()"
local firings, changed_firings, audits = {}, {}, {}

local function decode_firing(text)
  if #text > extras.LONGEST_RECORD then return false end
  local state, attempt, token, lease_ms, redrives, at_ms, flags, opened_ms, begun_ms, owner, worker, queue, rest =
    string.match(text, FIRING_FIELDS)
  if not rest then return false end
  local f = {
    state = state, attempt = number_of[attempt], token = number_of[token], lease_ms = number_of[lease_ms],
    redrives = number_of[redrives], at_ms = number_of[at_ms], flags = number_of[flags],
    opened_ms = number_of[opened_ms], begun_ms = number_of[begun_ms],
    owner = owner, worker = worker, queue = queue, extra = string.sub(text, rest),
  }
  local readable = f.attempt and f.token and f.lease_ms and f.redrives and f.at_ms and f.flags and f.opened_ms and f.begun_ms
  return readable and (f.extra == "" or extras.decode(f.extra)) and f or false
end

local function encode_firing(f)
  if type(f) == "string" then return f end
  return f.state .. "|" .. text_of[f.attempt] .. "|" .. text_of[f.token] .. "|" .. text_of[f.lease_ms] .. "|" ..
    text_of[f.redrives] .. "|" .. text_of[f.at_ms] .. "|" .. text_of[f.flags] .. "|" .. text_of[f.opened_ms] .. "|" ..
    text_of[f.begun_ms] .. "|" .. f.owner .. "|" .. f.worker .. "|" .. f.queue .. "|" .. f.extra
end

local function new_firing(state, at_ms, queue)
  return { state = state, attempt = 0, token = 0, lease_ms = 0, redrives = 0, at_ms = at_ms, flags = 0,
    opened_ms = now_ms, begun_ms = 0, owner = "", worker = "", queue = queue, extra = "" }
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
  if type(firings[id]) == "string" then firings[id] = decode_firing(firings[id]) end
  return firings[id]
end

-- put_firing changes a record, or sets its text; without an audit time that
-- stays as it is.
local function put_firing(id, firing, audit_ms)
  firings[id], changed_firings[id] = firing, firing
  if audit_ms then audits[id] = audit_ms end
end

local function drop_firing(id)
  firings[id], changed_firings[id], audits[id] = false, false, false
end

-- write_firings frees first, so that a full server can still settle.
local function write_firings()
  local dropped, unaudited, fields, scores, n, m = {}, {}, {}, {}, 0, 0
  for id, firing in pairs(changed_firings) do
    if firing then
      fields[n + 1], fields[n + 2] = id, encode_firing(firing)
      n = n + 2
    else
      dropped[#dropped + 1] = id
    end
  end
  for id, audit_ms in pairs(audits) do
    if audit_ms then
      scores[m + 1], scores[m + 2] = text_of[audit_ms], id
      m = m + 2
    else
      unaudited[#unaudited + 1] = id
    end
  end
  if #dropped > 0 then redis.call("HDEL", FIRING, unpack(dropped)) end
  if #unaudited > 0 then redis.call("ZREM", AUDIT, unpack(unaudited)) end
  if n > 0 then redis.call("HSET", FIRING, unpack(fields)) end
  if m > 0 then redis.call("ZADD", AUDIT, unpack(scores)) end
end
