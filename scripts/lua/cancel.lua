-- cancel: end an open firing because an operator wants it: one that is buffered at once, another by asking whoever has it.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- KEYS[16]  list  the run log of the schedule
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  firing
-- ARGV[5]  keep     length of the run log, 0 none
-- ARGV[6]  note     who and why, not interpreted
-- ARGV[7]  channel  for waking
-- ARGV[8]  message
--
-- Returns  {answer, firings}, with the columns of audit for one that stays open
--          CANCELLED closed; ASKED open until its run has ended or its task was deleted, an auditor looks at once;
--          EARLY a scheduled time without a verdict; CLOSED not open, it ended or never was; GONE no such generation
-- Resend   ASKED or CLOSED, changes nothing
-- Writes   st, fir, aud, opn, buf, due, out, meta, evt, the run log; bf, bfq for a firing of a backfill
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/firingid.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/event.lua
-- @include lib/count.lua
-- @include lib/state.lua
-- @include lib/verdict.lua
-- @include lib/open.lua
-- @include lib/run.lua
-- @include lib/backfill.lua
-- @include lib/settle.lua
-- @include lib/position.lua
-- @include lib/wake.lua
-- @include lib/write.lua

local id, keep, note = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local channel, message = ARGV[7], ARGV[8]
local rows, released = {}, {}

-- close ends a firing that waits: nobody has it.
local function close(r, firing)
  end_run(r, id, firing, { outcome = "cancelled", keep = keep, error = "cancelled" .. note }, KEYS[16])
  close_firing(r, id, firing, "cancelled", released)
  audit_now(released)
  return "CANCELLED"
end

-- ask lets the firing be found by an auditor. One that is only promised is
-- enqueued first by whoever claims it, so that its scheduled time has a verdict.
local function ask(firing)
  firing.flags = firing.flags + CANCEL_ASKED + runs.BY_HAND
  put_firing(id, firing, now_ms)
  return "ASKED"
end

-- Decide.
local schedule, generation, _, at_ms = split_firing(id)
local r, firing, answer = get_schedule(schedule), get_firing(id), nil
if not r or r.generation ~= generation then return { "GONE", rows } end
if not firing then return { at_ms > r.high_water_ms and "EARLY" or "CLOSED", rows } end
local known = has_bit(firing.flags, CANCEL_ASKED)
if known then
  answer = "ASKED"
else
  note_event("cancel_asked", r, id .. note)
  answer = firing.state == BUFFERED and close(r, firing) or ask(firing)
end
if answer == "ASKED" then add_row(rows, id, firing) end

-- Apply.
write_all()
runs.write()
if not known then redis.call("PUBLISH", channel, message) end
return { answer, rows }
