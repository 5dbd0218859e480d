-- periodic_renew: extend a claim of a periodic task that nobody else took.
--
-- KEYS[1]  hash  periodic: see lib/periodic.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  task
-- ARGV[5]  owner
-- ARGV[6]  token
-- ARGV[7]  ttl_ms  from now
--
-- Returns  until_ms, or 0 when the claim was lost; it is never revived
-- Resend   safe
-- Writes   periodic, when the claim is the owner's
-- Cost     O(1)
-- @include lib/clock.lua
-- @include lib/periodic.lua

local owner, token, ttl_ms = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])

-- Decide.
local r = get_task(ARGV[4])
if not holds_task(r, owner, token) then return 0 end

-- Apply.
r.until_ms = now_ms + ttl_ms
put_task(r)
return r.until_ms
