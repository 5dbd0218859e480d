-- What repairs find and do. The records are right; indexes and lists follow
-- from them. What is repaired is told as pairs of a name and a word.
local repaired = {}

local function tell(name, what)
  repaired[#repaired + 1] = name
  repaired[#repaired + 1] = what
end

-- score_of is a score as a number, nil when there is none.
local function score_of(key, member)
  local score = redis.call("ZSCORE", key, member)
  if not score then return nil end
  return tonumber(score) or math.huge -- "inf"
end
