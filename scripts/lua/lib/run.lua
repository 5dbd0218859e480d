-- Runs: the last one that ended, what became of the schedule since, and the
-- run log. An entry is
-- "ended_ms|outcome|attempt|token|started_ms|duration_ms|firing|worker|error";
-- started_ms is 0 for a firing that never ran. The note beside it is
-- "running|started_ms|firing|token|" or "disabled|started_ms|".

-- begin_run notes that a run began.
local function begin_run(r, id, firing)
  redis.call("HSET", OUTCOME, r.id .. ":r", string.format("running|%d|%s|%d|", firing.begun_ms, id, firing.token))
end

-- unbegin_run takes the note back when it is about this run.
local function unbegin_run(r, id, firing)
  local note = redis.call("HGET", OUTCOME, r.id .. ":r")
  if note == string.format("running|%d|%s|%d|", firing.begun_ms, id, firing.token) then
    redis.call("HDEL", OUTCOME, r.id .. ":r")
  end
end

-- note_disabled notes that the breaker disabled the schedule.
local function note_disabled(r)
  local started = string.match(redis.call("HGET", OUTCOME, r.id .. ":r") or "", "^%l+|(%d+)|") or "0"
  redis.call("HSET", OUTCOME, r.id .. ":r", "disabled|" .. started .. "|")
end

-- end_run records how a run ended; run_log nil or keep 0 means no log.
local function end_run(r, id, firing, run, run_log)
  local entry = string.format("%d|%s|%d|%d|%d|%d|%s|%s|", now_ms, run.outcome,
    run.attempt or firing.attempt, firing.token, run.started_ms or firing.begun_ms, run.duration_ms or 0, id,
    run.worker or firing.worker) .. (run.error or "")
  redis.call("HSET", OUTCOME, r.id, entry)
  redis.call("HDEL", OUTCOME, r.id .. ":r", r.id .. ":e")
  if run_log and run.keep > 0 then
    redis.call("LPUSH", run_log, entry)
    redis.call("LTRIM", run_log, 0, run.keep - 1)
  end
end
