-- calendars_raise: raise the version of all calendars above what shards know, and have all carried out anew.
--
-- KEYS[1]  hash  conf: calendars (version)
-- KEYS[2]  hash  cal: name -> definition
-- KEYS[3]  hash  calq: name -> change, see calendars; one that is noted keeps its kind, all others get "replace"
-- ARGV[1]  started_ms  the caller's clock
-- ARGV[2]  seen        version that the caller saw; with another one nothing is to be done
-- ARGV[3]  above       the greatest version that a shard knows
--
-- Returns  {version, name, change, ...}: what is stored now, and what calq holds; no names when nothing was done
-- Resend   the same, unless another call came in between
-- Writes   conf, calq
-- Cost     O(calendars)

local conf, definitions, changes, started_ms = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local seen, above = tonumber(ARGV[2]), tonumber(ARGV[3])

-- Decide.
local stored = tonumber(redis.call("HGET", conf, "calendars") or "0") or 0
local raises, version = stored == seen and stored <= above, above + 1
local mine = string.format("%.0f|%s|", version, started_ms)
local answer, noted = { raises and version or stored }, {}
for _, name in ipairs(redis.call("HKEYS", definitions)) do
  local change = redis.call("HGET", changes, name) or ""
  if raises then
    change = mine .. (string.match(change, "%a+$") or "replace")
    noted[#noted + 1] = { name = name, change = change }
  end
  if string.sub(change, 1, #mine) == mine then
    answer[#answer + 1], answer[#answer + 2] = name, change
  end
end

-- Apply.
if raises then redis.call("HSET", conf, "calendars", string.format("%.0f", version)) end
for _, n in ipairs(noted) do redis.call("HSET", changes, n.name, n.change) end
return answer
