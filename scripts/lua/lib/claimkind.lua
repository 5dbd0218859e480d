-- What a claim is for. Only here are intents of scheduled times recorded.

-- due_firing is the firing of the pending time, nil when that has its verdict.
local function due_firing(r)
  if r.next_ms > r.high_water_ms then return firing_of(r, text_of[r.next_ms]) end
end

-- known_kind is the kind of a claim whose firing is in the ledger: an intent
-- that is claimed again must fire, since its task may be in the queue.
local function known_kind(r, id, firing)
  if firing.state ~= INTENT then return "A", 1, firing.redrives, r.open - 1, "", "" end
  if not has_bit(firing.flags, CLAIMED_AGAIN) then
    firing.flags = firing.flags + CLAIMED_AGAIN
    put_firing(id, firing)
  end
  return "F", 1, firing.redrives, r.open - 1, remove_item(listed_open(r), item_of(r, id)), firing.queue
end

-- intent_text is the record of a new intent, as new_firing makes it. It stays
-- text: a claim only writes it.
local function intent_text(at_ms, queue)
  return "I|0|0|0|0|" .. text_of[at_ms] .. "|0|" .. text_of[now_ms] .. "|0|||" .. queue .. "|"
end

-- claim_kind returns kind, again, redrives, number of other open firings, their
-- list, and with "F" the queue. The firing ID is nil when the scheduled time has
-- its verdict.
local function claim_kind(r, id, audit_ms, audit_overlap_ms)
  if not id then return "A", 0, 0, r.open, "", "" end
  local overlap, firing, list = overlap_policy(r), get_firing(id), listed_open(r)
  if firing then return known_kind(r, id, firing) end
  if is_skipped(r, text_of[r.next_ms]) then return "K", 0, 0, r.open, list, "" end
  local others = r.open
  if others > 0 and overlap ~= ALLOW and overlap ~= CANCEL_OTHER then return "O", 0, 0, others, list, "" end
  if overlap == CANCEL_OTHER then ask_to_end(firing_ids(r, open_list(r))) end
  open_firing(r, id, intent_text(r.next_ms, r.queue), overlap == ALLOW and audit_ms or audit_overlap_ms)
  return "F", 0, 0, others, list, r.queue
end

-- lapse ends a claim that ran out and is not granted anew: of a probe, beside
-- which something was opened.
local function lapse(r)
  if r.token ~= NO_TOKEN then set_token(r, NO_TOKEN) end
  place(r)
end
