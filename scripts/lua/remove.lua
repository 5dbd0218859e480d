-- remove: delete a schedule. No execution starts afterwards: what is open answers GONE.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- KEYS[16]  list  the run log of the schedule
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]    schedule
-- ARGV[5]    generation  that is to be deleted
-- ARGV[6..]  index members
--
-- Returns  OK; GONE no such generation
-- Resend   answers GONE, changes nothing
-- Writes   all but idem, bf, bfq; backfill_due forgets its backfills
-- Cost     O(its listed firings and index members)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/event.lua
-- @include lib/count.lua
-- @include lib/state.lua
-- @include lib/write.lua

local id, generation = ARGV[4], ARGV[5]

-- Decide.
local r = get_schedule(id)
if not r or r.generation ~= generation then return "GONE" end
for _, firing_id in ipairs(firing_ids(r, buffer_list(r) .. open_list(r))) do drop_firing(firing_id) end
set_token(r, NO_TOKEN)
set_buffered(r, 0)
count(COUNTED[r.state], -1, id)
moves[id], changed_schedules[id] = false, nil
note_event("removed", r)

-- Apply.
write_all()
for i = 6, #ARGV do redis.call("ZREM", LABEL, ARGV[i]) end
for _, key in ipairs({ DEFINITION, SCHEDULE, OPEN, BUFFER, SKIP }) do redis.call("HDEL", key, id) end
redis.call("HDEL", OUTCOME, id, id .. ":r", id .. ":p", id .. ":e")
redis.call("DEL", KEYS[16])
return "OK"
