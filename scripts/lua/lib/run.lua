-- Runs: the last one that ended, what became of the schedule since, and the
-- run log. An entry is
-- "ended_ms|outcome|attempt|token|started_ms|duration_ms|firing|worker|error";
-- started_ms is 0 for a firing that never ran. The note beside it is
-- "running|started_ms|firing|token|" or "disabled|started_ms|". Changes are
-- collected, and written by runs.write, which every script that ends runs calls
-- after write_all.
local runs = { notes = {}, changed = {}, logged = {} }

-- BY_HAND is a bit of a firing's flags, set with CANCEL_ASKED when an operator
-- asked for its end and not a newer firing.
runs.BY_HAND = 16

function runs.get(field)
  if runs.notes[field] == nil then runs.notes[field] = redis.call("HGET", OUTCOME, field) end
  return runs.notes[field]
end

function runs.set(field, text) runs.notes[field], runs.changed[field] = text, true end

function runs.running(id, firing) return string.format("running|%d|%s|%d|", firing.begun_ms, id, firing.token) end

-- runs.write_logs tells of a run log that is none when all others are written:
-- the call is repeated, and finds the firing settled.
function runs.write_logs()
  local fault
  for _, l in ipairs(runs.logged) do
    local answer = redis.pcall("LPUSH", l.log, l.entry)
    if type(answer) == "table" and answer.err then
      fault = answer.err
    else
      redis.call("LTRIM", l.log, 0, l.keep - 1)
    end
  end
  if fault then error(fault) end
end

function runs.write()
  local fields, gone = {}, {}
  for field in pairs(runs.changed) do
    if runs.notes[field] then
      fields[#fields + 1] = field
      fields[#fields + 1] = runs.notes[field]
    else
      gone[#gone + 1] = field
    end
  end
  if #gone > 0 then redis.call("HDEL", OUTCOME, unpack(gone)) end
  if #fields > 0 then redis.call("HSET", OUTCOME, unpack(fields)) end
  runs.write_logs()
end

-- runs.last_outcome is the outcome of the firing when it was the last to end, or
-- nil.
function runs.last_outcome(r, id)
  local outcome, ended = string.match(runs.get(r.id) or "", "^%d+|(%l+)|[^|]*|[^|]*|[^|]*|[^|]*|([^|]*)|")
  return ended == id and outcome or nil
end

-- runs.begin notes that a run began.
function runs.begin(r, id, firing) runs.set(r.id .. ":r", runs.running(id, firing)) end

-- runs.unbegin takes the note back when it is about this run.
function runs.unbegin(r, id, firing)
  if runs.get(r.id .. ":r") == runs.running(id, firing) then runs.set(r.id .. ":r", false) end
end

-- note_disabled notes that the breaker disabled the schedule.
local function note_disabled(r)
  local started = string.match(runs.get(r.id .. ":r") or "", "^%l+|(%d+)|") or "0"
  runs.set(r.id .. ":r", "disabled|" .. started .. "|")
end

-- end_run records how a run ended; run_log nil or keep 0 means no log.
local function end_run(r, id, firing, run, run_log)
  local entry = string.format("%d|%s|%d|%d|%d|%d|%s|%s|", now_ms, run.outcome,
    run.attempt or firing.attempt, firing.token, run.started_ms or firing.begun_ms, run.duration_ms or 0, id,
    run.worker or firing.worker) .. (run.error or "")
  runs.set(r.id, entry)
  runs.set(r.id .. ":r", false)
  runs.set(r.id .. ":e", false)
  if run_log and run.keep > 0 then
    runs.logged[#runs.logged + 1] = { log = run_log, entry = entry, keep = run.keep }
  end
end
