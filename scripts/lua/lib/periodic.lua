-- Records of periodic tasks, in one hash: under the task's name numbers that
-- end with "|", and texts under the name with a suffix: ":o" owner of the
-- claim, "" when there is none; ":n" nonce of its call; ":d" display name;
-- ":e" last error; ":b" and ":r" who paused it and why. Fields may be added
-- at the end: what an older script does not know it keeps.
--
-- A claim that ran out stays in the record, and with its owner, until another
-- is granted. asked counts the triggers; taken those that the claim answers,
-- ended those that a completed run answered.
local TASKS = KEYS[1]
local NUMBERS = { "next_ms", "token", "until_ms", "attempt", "done_token", "asked", "taken", "ended", "paused",
  "paused_until_ms", "created_ms", "runs", "fails", "started_ms", "duration_ms", "outcome" }

local function get_task(name)
  local stored = redis.call("HMGET", TASKS, name, name .. ":o", name .. ":n")
  if not stored[1] then return nil end
  local r, i = { name = name, owner = stored[2] or "", nonce = stored[3] or "", unknown = "" }, 0
  for text in string.gmatch(stored[1], "([^|]*)|") do
    i = i + 1
    if NUMBERS[i] then r[NUMBERS[i]] = tonumber(text) else r.unknown = r.unknown .. text .. "|" end
  end
  return r
end

local function new_task(name)
  local r = { name = name, owner = "", nonce = "", unknown = "" }
  for _, field in ipairs(NUMBERS) do r[field] = 0 end
  return r
end

-- put_task writes the record, and pairs of a suffix and a text.
local function put_task(r, ...)
  local text, fields = "", { r.name, "", r.name .. ":o", r.owner, r.name .. ":n", r.nonce }
  for _, field in ipairs(NUMBERS) do text = text .. string.format("%.0f|", r[field]) end
  fields[2] = text .. r.unknown
  for i, value in ipairs({ ... }) do fields[#fields + 1] = i % 2 == 1 and r.name .. value or value end
  redis.call("HSET", TASKS, unpack(fields))
end

-- task_entry is all that is stored of a task: record, owner, display, error,
-- by, reason; the record is "" when there is none.
local function task_entry(name)
  local reply = redis.call("HMGET", TASKS, name, name .. ":o", name .. ":d", name .. ":e", name .. ":b", name .. ":r")
  for i = 1, 6 do reply[i] = reply[i] or "" end
  return reply
end

-- is_paused looks at the pause; one that is over is none.
local function is_paused(r) return r.paused == 1 and (r.paused_until_ms == 0 or r.paused_until_ms > now_ms) end

-- holds_task is the ownership predicate.
local function holds_task(r, owner, token) return r and r.owner ~= "" and r.owner == owner and r.token == token end
