-- periodic_complete: end a claim of a periodic task and place the task at its next time, for the owner only.
--
-- KEYS[1]  hash  periodic: see lib/periodic.lua
-- ARGV[1..3]    wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]   task
-- ARGV[5]   owner
-- ARGV[6]   token
-- ARGV[7]   next_ms      0: no next time
-- ARGV[8]   hand_back    1: nothing ran, keep the time and count nothing
-- ARGV[9]   outcome      1 succeeded, 2 failed
-- ARGV[10]  error
-- ARGV[11]  started_ms
-- ARGV[12]  duration_ms
--
-- Returns  OK | ALREADY completed before | STALE another owner took it | GONE no entry
-- Resend   ALREADY, changes nothing
-- Writes   periodic, when the claim is the owner's
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/periodic.lua

local owner, token, next_ms, hand_back = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == "1"

-- Decide.
local r = get_task(ARGV[4])
if not r then return "GONE" end
if token ~= 0 and r.done_token == token then return "ALREADY" end
if not holds_task(r, owner, token) then return "STALE" end
r.done_token, r.owner, r.nonce, r.until_ms = r.token, "", "", 0

-- Apply.
if hand_back then
  put_task(r)
  return "OK"
end
r.next_ms, r.ended, r.runs, r.outcome = next_ms, r.taken, r.runs + 1, tonumber(ARGV[9])
if r.outcome == 2 then r.fails = r.fails + 1 end
r.started_ms, r.duration_ms = tonumber(ARGV[11]), tonumber(ARGV[12])
put_task(r, ":e", ARGV[10])
return "OK"
