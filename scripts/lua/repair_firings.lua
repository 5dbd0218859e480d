-- repair_firings: see to it that what is open is audited and listed, and nothing else.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  longest_ms  an audit that is further away than this after the lease is wrong
-- ARGV[5]  waiting_ms  the same for a firing that waits for a retry
-- ARGV[6..]  firings
--
-- Returns  firing, key that was repaired, ...
--          A record that cannot be read becomes an intent, which the auditor enqueues unless its task is there
-- Resend   safe, names nothing
-- Writes   aud, fir, opn, buf
-- Cost     O(firings)
-- @include lib/clock.lua
-- @include lib/shard.lua
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

local longest_ms, waiting_ms, ids = tonumber(ARGV[4]), tonumber(ARGV[5]), {}
for i = 6, #ARGV do ids[#ids + 1] = ARGV[i] end

local function audit_of(id, firing)
  local score = score_of(AUDIT, id)
  local latest_ms = math.max(now_ms, firing.lease_ms) + (firing.state == WAITING and waiting_ms or longest_ms)
  if score and score <= latest_ms then return end
  audits[id] = now_ms
  tell(id, "aud")
end

-- readable_extra is what can still be read of what the firing carried.
local function readable_extra(id)
  local text = redis.call("HGET", FIRING, id)
  local rest = select(13, string.match(text, FIRING_FIELDS))
  local extra = rest and string.sub(text, rest) or ""
  return extra ~= "" and extras.decode(extra) and extra or ""
end

-- read_anew stands in for a record that cannot be read. Nil: there is none to
-- keep.
local function read_anew(id, r, at_ms)
  if redis.call("HEXISTS", FIRING, id) == 0 then
    if score_of(AUDIT, id) then
      audits[id] = false
      tell(id, "aud")
    end
    return
  end
  tell(id, "fir")
  if not r then return drop_firing(id) end
  local firing = new_firing(INTENT, at_ms, r.queue)
  firing.extra = readable_extra(id)
  put_firing(id, firing, now_ms)
  return firing
end

-- Decide.
load_firings(ids)
for _, id in ipairs(ids) do
  local schedule, generation, _, at_ms = split_firing(id)
  local r = schedule and get_schedule(schedule)
  if not r or r.generation ~= generation then r = false end
  local firing = firings[id] or read_anew(id, r, at_ms)
  if firing then
    if schedule then audit_of(id, firing) else drop_firing(id) end
    if r then repair_listed(r, id, firing) end
  end
end

-- Apply.
write_all()
return repaired
