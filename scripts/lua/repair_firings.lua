-- repair_firings: see to it that what is open is audited and listed, and nothing else: what is no firing of this shard goes.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  longest_ms  an audit that is further away than this after the lease is wrong
-- ARGV[5]  waiting_ms  the same for a firing that waits for a retry
-- ARGV[6]  strays      how many of the firings, the first ones, are of schedules that belong into other shards
-- ARGV[7..]  firings
--
-- Returns  firing, key that was repaired, ...
--          A record that cannot be read becomes an intent, which the auditor enqueues unless its task is there. A firing
--          whose schedule was deleted is audited within a minute, unless it runs: then its heartbeat drops it
-- Resend   safe, names nothing
-- Writes   aud, fir, opn, buf
-- Cost     O(firings)
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
-- @include lib/repair.lua
-- @include lib/repairlist.lua
-- @include lib/write.lua

local longest_ms, waiting_ms, strays, ids = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), {}
for i = 7, #ARGV do ids[#ids + 1] = ARGV[i] end
local GONE_MS = 60000 -- until the audit of a firing whose schedule was deleted, at most

local function audit_of(id, firing, gone)
  local score = score_of(AUDIT, id)
  local latest_ms = math.max(now_ms, firing.lease_ms) + (firing.state == WAITING and waiting_ms or longest_ms)
  if score and score <= latest_ms then
    if gone and firing.state ~= RUNNING and score > now_ms + GONE_MS then audits[id] = now_ms end
    return
  end
  audits[id] = now_ms
  tell(id, "aud")
end

-- readable_extra is what can still be read of what the firing carried.
local function readable_extra(id)
  local text = redis.call("HGET", FIRING, id)
  local rest = #text <= extras.LONGEST_RECORD and string.match(text, "^" .. string.rep("[^|]*|", 12) .. "()")
  local extra = rest and string.sub(text, rest) or ""
  return extra ~= "" and extras.decode(extra) and extra or ""
end

-- strike_out takes away what is no firing, or has no record to keep.
local function strike_out(id)
  local recorded = redis.call("HEXISTS", FIRING, id) == 1
  if recorded or score_of(AUDIT, id) then tell(id, recorded and "fir" or "aud") end
  drop_firing(id)
end

-- read_anew stands in for a record that cannot be read.
local function read_anew(id, r, at_ms)
  if not r or redis.call("HEXISTS", FIRING, id) == 0 then return strike_out(id) end
  tell(id, "fir")
  local firing = new_firing(INTENT, at_ms, r.queue)
  firing.extra = readable_extra(id)
  put_firing(id, firing, now_ms)
  return firing
end

-- Decide.
load_firings(ids)
for i, id in ipairs(ids) do
  local schedule, generation, _, at_ms = split_firing(id)
  local r = schedule and get_schedule(schedule)
  local gone = not unreadable[schedule or ""] and not (r and r.generation == generation)
  if not schedule or i <= strays and not r and gone then
    strike_out(id)
  else
    if gone then r = false end
    local firing = firings[id] or read_anew(id, r, at_ms)
    if firing then audit_of(id, firing, gone) end
    if firing and r then repair_listed(r, id, firing) end
  end
end

-- Apply.
write_all()
return repaired
