-- What moves a schedule: its state, its claim token, its place in the index of
-- due times. Each is changed here only, so that the counters in meta are exact
-- and the index never disagrees with the record.
local moves = {}

local function set_state(r, state)
  if r.state then count(COUNTED[r.state], -1, r.id) end
  if state then count(COUNTED[state], 1, r.id) end
  r.state = state
  change(r)
end

local function set_token(r, token)
  if (r.token == NO_TOKEN) ~= (token == NO_TOKEN) then count("claimed", token == NO_TOKEN and -1 or 1, r.id) end
  r.token = token
  change(r)
end

local function set_buffered(r, buffered)
  count("buffered", buffered - r.buffered, r.id)
  r.buffered = buffered
  change(r)
end

-- can_fire says whether the state lets the pending time fire. A probe goes
-- alone; one whose claim ran out may be claimed again.
local function can_fire(r)
  if r.next_ms == 0 or (r.state ~= ACTIVE and r.state ~= PROBING) then return false end
  if r.state == ACTIVE or r.open == 0 then return true end
  return r.open == 1 and get_firing(firing_of(r, text_of[r.next_ms])) and true
end

local function due_ms(r) return r.not_before_ms > r.next_ms and r.not_before_ms or r.next_ms end

-- place puts an unclaimed schedule where it belongs: at its due time, at the
-- end of its pause or cool-down, or nowhere.
local function place(r)
  moves[r.id] = false
  if can_fire(r) then
    moves[r.id] = text_of[due_ms(r)]
  elseif (r.state == PAUSED or r.state == DISABLED) and with_cold(r).until_ms > 0 then
    moves[r.id] = decimal(r.until_ms)
  end
end

-- hold puts a claimed schedule at the claim's deadline. The fraction marks it.
local function hold(r, deadline_ms) moves[r.id] = text_of[deadline_ms] .. ".5" end

local function write_moves()
  local gone, scores, n = {}, {}, 0
  for id, score in pairs(moves) do
    if score then
      scores[n + 1], scores[n + 2] = score, id
      n = n + 2
    else
      gone[#gone + 1] = id
    end
  end
  if #gone > 0 then redis.call("ZREM", DUE, unpack(gone)) end
  if n > 0 then redis.call("ZADD", DUE, unpack(scores)) end
  write_counts()
end
