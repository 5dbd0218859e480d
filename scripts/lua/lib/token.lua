-- Tokens. The field token of meta is the last that was granted.
local tokens = {}

-- tokens.granted returns the last token that was granted, nil and the text of
-- the field when that cannot be one.
function tokens.granted()
  local text = redis.call("HGET", META, "token") or "0"
  local token = number_of[text]
  if token and token >= 0 and token <= LAST_TOKEN then return token end
  return nil, text
end

-- tokens.grant returns the first of n tokens: larger than all before it, and
-- larger than those of a server that lost its memory.
function tokens.grant(n)
  local granted, text = tokens.granted()
  if not granted or granted + n > LAST_TOKEN then
    local advice = granted and "; doctor says what to do" or "; doctor --fix repairs it"
    error("field token of " .. META .. " is '" .. string.sub(text or decimal(granted), 1, 40) .. "', which lets no token follow" .. advice)
  end
  local first = math.max(granted + 1, now_ms * 1000)
  redis.call("HSET", META, "token", decimal(first + n - 1))
  return first
end
