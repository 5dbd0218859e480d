-- audit: hand out open firings whose audit time has come, and hide them for a while.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  limit    at most this many
-- ARGV[5]  hide_ms  when they are looked at again if nothing happens, from now; at most 5 s when a buffered firing waits for it
--
-- Returns  {now_ms, next_audit_ms | "", released, firings}
--          firings: firing, state, position, attempt, redrives, token, lease_ms, opened_ms, queue, flags, worker, extra, ...
--          position PENDING not passed yet, whoever claims it again enqueues it; PASSED; GONE schedule deleted.
--          A buffered firing that is still waiting is not handed out, nor what is no firing: repair_firings drops it. With 1 MiB of payloads a reply is full: the rest is due 100 ms later
-- Resend   safe, but what the first reply named stays hidden
-- Writes   aud; st, fir, opn, buf, meta when it releases a buffered firing; idem, out of forgotten requests
-- Cost     O(limit)
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
-- @include lib/request.lua
-- @include lib/position.lua
-- @include lib/write.lua

local limit, hide_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local found, released, carried = {}, {}, 0
local MOST_CARRIED = 1048576 -- bytes of payloads in one reply, about
local NEXT_REPLY_MS = 100 -- when what is over is due again

local function look_at(id, firing)
  local where, r = position_of(id)
  local waited_for = r and r.buffered > 0
  audits[id] = now_ms + (waited_for and math.min(hide_ms, RELEASE_AUDIT_MS) or hide_ms)
  if firing.state == BUFFERED and where ~= "GONE" then return release(r, released) end
  if not split_firing(id) then return end
  add_row(found, id, firing)
  carried = carried + extras.bytes(firing)
end

-- Decide.
local ids = redis.call("ZRANGEBYSCORE", AUDIT, "-inf", now_ms, "LIMIT", 0, limit)
load_firings(ids)
for _, id in ipairs(ids) do
  if not firings[id] then
    audits[id] = false
  elseif carried < MOST_CARRIED then
    look_at(id, firings[id])
  else
    audits[id] = now_ms + NEXT_REPLY_MS
  end
end

-- Apply.
prune_requests()
write_all()
local first = redis.call("ZRANGE", AUDIT, 0, 0, "WITHSCORES")
return { now_ms, first[2] and math.ceil(math.min(tonumber(first[2]) or 2 ^ 53, 2 ^ 53)) or "", released, found }
