-- repair_schedules: put schedules where their records say: in the index of due times, in lists, under their names.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  grace_ms    from now, deadline of a claim whose own is lost
-- ARGV[5]  longest_ms  a deadline further away than this is wrong
-- ARGV[6..]  for each: schedule, generation and version of the definition that its names come from, how many index
--          members it must have and how many it must not, then those
--
-- Returns  schedule, key that was repaired, ...
-- Resend   safe, names nothing
-- Writes   due, opn, buf, skp, st, lbl; out of a schedule that does not exist
-- Cost     O(schedules, their names and what their lists hold)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/event.lua
-- @include lib/count.lua
-- @include lib/state.lua
-- @include lib/skips.lua
-- @include lib/repair.lua
-- @include lib/repairlist.lua
-- @include lib/repairschedule.lua
-- @include lib/write.lua

local grace_ms, longest_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local wanted, gone, ids = {}, {}, {}

local function members(first, n)
  local names = {}
  for i = first, first + n - 1 do names[#names + 1] = ARGV[i] end
  return names
end

-- forget removes what indexes say of a schedule that does not exist.
local function forget(w)
  repair_names(w.id, w.right, false)
  repair_names(w.id, w.wrong, false)
  if score_of(DUE, w.id) then
    moves[w.id] = false
    tell(w.id, "due")
  end
  gone[#gone + 1] = w.id
end

-- Decide.
local i = 6
while i <= #ARGV do
  local right, wrong = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  ids[#ids + 1] = ARGV[i]
  wanted[#wanted + 1] = { id = ARGV[i], generation = ARGV[i + 1], version = tonumber(ARGV[i + 2]),
    right = members(i + 5, right), wrong = members(i + 5 + right, wrong) }
  i = i + 5 + right + wrong
end
load_schedules(ids)
for _, w in ipairs(wanted) do
  local r = schedules[w.id]
  if not r and not unreadable[w.id] then forget(w) end
  if r then
    repair_place(r, grace_ms, longest_ms)
    repair_lists(r)
    if r.generation == w.generation and r.version == w.version then
      repair_names(w.id, w.right, true)
      repair_names(w.id, w.wrong, false)
    end
  end
end

-- Apply.
for _, id in ipairs(gone) do
  for _, key in ipairs({ OPEN, BUFFER, SKIP }) do
    if redis.call("HDEL", key, id) == 1 then tell(id, "lists") end
  end
  if redis.call("HDEL", OUTCOME, id, id .. ":r", id .. ":p", id .. ":e") > 0 then tell(id, "out") end
end
write_names()
write_all()
return repaired
