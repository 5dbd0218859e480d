-- Firing IDs: "schedule:generation:key"; key is the scheduled time, "m" and a
-- request (trigger), or "b", a backfill, "." and a scheduled time. The three
-- spaces cannot meet, and only the first is compared with the high-water mark.
-- claim.ParseFiringID draws the same line between IDs and other texts.

-- whole is the number of a text as decimal writes it, from 0 to last, else nil.
local function whole(text, last)
  local number = number_of[text]
  if number and number <= last and (text == "0" or string.find(text, "^[1-9]")) then return number end
end

-- split_firing returns schedule, generation, key, and the scheduled time when
-- the key is one, otherwise 0. Nil is what is no ID.
local function split_firing(id)
  if #id > 200 then return nil end
  local schedule, generation, key = string.match(id, "^([A-Za-z0-9][A-Za-z0-9._-]*):([0-9]+):([A-Za-z0-9._-]+)$")
  if not schedule or #schedule > 128 or not whole(generation, LAST_TOKEN) then return nil end
  local kind, request, dot, at = string.match(key, "^([mb])([A-Za-z0-9_-]+)(%.?)([0-9]*)$")
  if request and #request > 36 or kind == "m" and dot ~= "" or kind == "b" and dot == "" then return nil end
  local at_ms = kind == "m" and 1 or whole(at or key, LAST_MS) or 0
  if at_ms > 0 then return schedule, generation, key, kind and 0 or at_ms end
end
