-- Records of backfills, in one hash under "schedule:backfill": numbers that end
-- with "|"; fields may be added at the end. Each stands in the index with when
-- somebody looks at it: for its next step, or to forget it.
--
-- cursor_ms is the last scheduled time that was looked at, 0 when none is left.
-- passed counts those that were not opened. halted_ms and ended_ms are 0 until
-- then.
local backfill_record = {
  LONGEST_RECORD = 4096, -- bytes
  KEPT_MS = 7 * 24 * 3600 * 1000, -- after it ended or was halted
  FIELDS = { "generation", "from_ms", "to_ms", "cursor_ms", "not_before_ms", "every_ms", "most_open", "overlap",
    "again", "limit", "started_ms", "halted_ms", "ended_ms", "open", "opened", "passed", "failed" },
}

-- get_backfill returns nil as well when the record cannot be read, and then
-- true. readBackfill in pkg/redisstore refuses the same.
local function get_backfill(name)
  local text = redis.call("HGET", BACKFILL, name)
  if not text then return nil end
  if #text > backfill_record.LONGEST_RECORD then return nil, true end
  local b, i = { name = name, unknown = "" }, 0
  for number in string.gmatch(text, "([^|]*)|") do
    i = i + 1
    if backfill_record.FIELDS[i] then b[backfill_record.FIELDS[i]] = number_of[number] else b.unknown = b.unknown .. number .. "|" end
  end
  for _, field in ipairs(backfill_record.FIELDS) do
    if not b[field] or b[field] > LAST_MS and string.find(field, "_ms$") then return nil, true end
  end
  return b
end

local function encode_backfill(b)
  local text = ""
  for _, field in ipairs(backfill_record.FIELDS) do text = text .. string.format("%.0f|", b[field]) end
  return text .. b.unknown
end

-- put_backfill writes a record and says when it is looked at next.
local function put_backfill(b)
  local look_ms = b.not_before_ms
  if b.halted_ms > 0 then look_ms = b.halted_ms + backfill_record.KEPT_MS end
  if b.ended_ms > 0 then look_ms = b.ended_ms + backfill_record.KEPT_MS end
  redis.call("HSET", BACKFILL, b.name, encode_backfill(b))
  redis.call("ZADD", BACKFILL_DUE, look_ms, b.name)
end

local function drop_backfill(name)
  redis.call("HDEL", BACKFILL, name)
  redis.call("ZREM", BACKFILL_DUE, name)
end

-- end_backfill ends it when everything was opened and has ended.
local function end_backfill(r, b)
  if b.cursor_ms > 0 or b.open > 0 or b.ended_ms > 0 then return end
  b.ended_ms = now_ms
  note_event("backfill_ended", r, string.sub(b.name, #r.id + 2))
end

-- close_backfilled counts the end of a firing in its backfill, if it is of one.
local function close_backfilled(r, id, failed)
  local backfill = string.match(id, ":b([^.:]+)%.%d+$")
  local b = backfill and get_backfill(r.id .. ":" .. backfill)
  if not b or decimal(b.generation) ~= r.generation then return end
  b.open = math.max(0, b.open - 1)
  if failed then b.failed = b.failed + 1 end
  end_backfill(r, b)
  put_backfill(b)
end
