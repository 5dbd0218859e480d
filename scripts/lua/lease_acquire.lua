-- lease_acquire: grant a named lease, or report who has it.
--
-- KEYS[1]  hash  lease: owner, nonce, token, until_ms; it stays, so that tokens only rise
-- KEYS[2]  set   leases: names that were ever granted, for listing
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  owner
-- ARGV[5]  nonce   of this call, never reused
-- ARGV[6]  ttl_ms  from now
-- ARGV[7]  name    of the lease
--
-- Returns  {GRANTED | HELD, owner, token, until_ms, now_ms}
-- Resend   the same owner and nonce get their live grant back
-- Writes   the lease and leases, when it grants anew
-- Cost     O(1)
-- @include lib/clock.lua

local owner, nonce, ttl_ms = ARGV[4], ARGV[5], tonumber(ARGV[6])

-- Decide.
local held = redis.call("HMGET", KEYS[1], "owner", "nonce", "token", "until_ms")
local last_token, until_ms = tonumber(held[3] or "0"), tonumber(held[4] or "0")
if until_ms > now_ms then
  local status = held[1] == owner and held[2] == nonce and "GRANTED" or "HELD"
  return { status, held[1], last_token, until_ms, now_ms }
end

-- Apply.
local token = math.max(last_token + 1, now_ms * 1000)
until_ms = now_ms + ttl_ms
redis.call("HSET", KEYS[1], "owner", owner, "nonce", nonce, "token", string.format("%.0f", token),
  "until_ms", string.format("%.0f", until_ms))
redis.call("SADD", KEYS[2], ARGV[7])
return { "GRANTED", owner, token, until_ms, now_ms }
