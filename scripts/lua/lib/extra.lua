-- What a trigger gave its firing beside the definition, the extra. It stands
-- behind the fields of the record and is "" for most firings:
-- "at_ms|waits|bytes|payload|". at_ms is the scheduled time that the firing
-- stands for, 0 none; waits lists the firings that it asked to end and waits
-- for, each followed by a comma; bytes is the length of the payload, -1: there
-- is none. So it lives as long as the record, and an older script, which does
-- not know it, keeps it.
local extras = { LONGEST_RECORD = 1048576 } -- bytes, of a firing's record

-- decode returns at_ms, waits and the length of the payload; nil for what is no
-- extra.
function extras.decode(text)
  local at_ms, waits, bytes, first = string.match(text, "^(%d+)|([^|]*)|(%-?%d+)|()")
  local length = number_of[bytes or ""]
  if not length or length < -1 or not number_of[at_ms] then return nil end
  local last = first + math.max(0, length)
  if string.sub(text, last, last) ~= "|" then return nil end
  return number_of[at_ms], waits, length
end

-- waits lists what a firing waits for.
function extras.waits(firing)
  if firing.extra == "" then return "" end
  local _, waits = extras.decode(firing.extra)
  return waits
end

-- bytes is the length of the payload that a firing carries.
function extras.bytes(firing)
  if firing.extra == "" then return 0 end
  local _, _, length = extras.decode(firing.extra)
  return math.max(0, length)
end

-- add_released tells whoever enqueues a firing what there is to know.
function extras.add_released(released, id, firing)
  local n = #released
  released[n + 1], released[n + 2], released[n + 3] = id, firing.queue, firing.extra
end
