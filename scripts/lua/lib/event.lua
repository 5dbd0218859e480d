-- What happened to schedules, in a capped stream: who looks at it learns of
-- edits, operators' acts and the breaker, not of single firings. Events are
-- collected and written once, see write_all. A change of state is found by
-- comparing the record with what was read, so a script that is executed twice
-- tells of it once.
local EVENTS = 10000 -- kept in the stream, about
local TRANSITION = { "resumed", "paused", "disabled", "completed", "probing" }
local happened = {}

local function note_event(event, r, detail) happened[#happened + 1] = { event, r.id, r.generation, detail or "" } end

-- note_transitions tells of the schedules whose state changed; r.detail says
-- why. One that was completed and is active again was edited, which is told.
local function note_transitions()
  for _, r in pairs(changed_schedules) do
    local reopened = r.was == COMPLETED and r.state == ACTIVE
    if r.was and r.was ~= r.state and not reopened then note_event(TRANSITION[r.state], r, r.detail) end
  end
end

local function write_events()
  note_transitions()
  for _, e in ipairs(happened) do
    redis.call("XADD", EVENT, "MAXLEN", "~", EVENTS, "*", "event", e[1], "schedule", e[2],
      "generation", e[3], "at_ms", decimal(now_ms), "detail", e[4])
  end
end
