-- The time of this call. The server's clock decides, but never runs ahead of
-- the caller's by more than the allowance: both must agree before anything is
-- due. A simulation passes the time of a server of its own.
--
-- ARGV[1]  wall_ms       the caller's clock, Unix milliseconds
-- ARGV[2]  allowance_ms  how far the server may be ahead of it
-- ARGV[3]  virtual_ms    the server's clock in a simulation, otherwise ""
local function resolve_now(wall_ms, allowance_ms, virtual_ms)
  local server_ms = tonumber(virtual_ms)
  if not server_ms then
    local time = redis.call("TIME")
    server_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  end
  return math.min(server_ms, tonumber(wall_ms) + tonumber(allowance_ms))
end

local now_ms = resolve_now(ARGV[1], ARGV[2], ARGV[3])
