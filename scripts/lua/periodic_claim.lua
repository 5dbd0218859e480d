-- periodic_claim: grant a periodic task to an owner, or say when to ask again.
--
-- KEYS[1]  hash  periodic: see lib/periodic.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  task
-- ARGV[5]  owner
-- ARGV[6]  nonce   of this call, never reused
-- ARGV[7]  ttl_ms  from now
--
-- Returns  {GRANTED, left_ms, token, until_ms, due_ms, attempt, manual}
--          {NOTDUE | HELD | PAUSED | GONE, wait_ms}; wait_ms 0: nobody knows
-- Resend   the same owner and nonce get their live grant back
-- Writes   periodic, when it grants anew
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/periodic.lua

local name, owner, nonce, ttl_ms = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

local function granted(r)
  return { "GRANTED", r.until_ms - now_ms, r.token, r.until_ms, r.next_ms, r.attempt, r.taken > r.ended and 1 or 0 }
end

-- Decide.
local r = get_task(name)
if not r then return { "GONE", 0 } end
if r.owner ~= "" and r.until_ms > now_ms then
  if r.owner == owner and r.nonce == nonce then return granted(r) end
  return { "HELD", r.until_ms - now_ms }
end
if r.asked == r.ended then
  if is_paused(r) then return { "PAUSED", math.max(0, r.paused_until_ms - now_ms) } end
  if r.next_ms == 0 or r.next_ms > now_ms then return { "NOTDUE", math.max(0, r.next_ms - now_ms) } end
end
r.attempt = r.owner == "" and 1 or r.attempt + 1
r.owner, r.nonce, r.until_ms, r.taken = owner, nonce, now_ms + ttl_ms, r.asked
r.token = math.max(r.token + 1, now_ms * 1000)

-- Apply.
put_task(r)
return granted(r)
