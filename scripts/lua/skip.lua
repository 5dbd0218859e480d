-- skip: have one scheduled time not fire, or take that back.
--
-- KEYS[1..15]  the shard, in the order of lib/shard.lua
-- ARGV[1..3]   wall_ms, allowance_ms, virtual_ms: see lib/clock.lua
-- ARGV[4]  schedule
-- ARGV[5]  scheduled_ms
-- ARGV[6]  on  "1": skip it; "0": fire it after all
--
-- Returns  OK; LATE it has its verdict, or may be in its queue, already; FULL 100 are asked for; GONE no such schedule
-- Resend   safe
-- Writes   st, skp; evt when something changes
-- Cost     O(times that are asked for)
-- @include lib/clock.lua
-- @include lib/shard.lua
-- @include lib/schedule.lua
-- @include lib/extra.lua
-- @include lib/firing.lua
-- @include lib/lists.lua
-- @include lib/event.lua
-- @include lib/skips.lua

local at, on = ARGV[5], ARGV[6] == "1"
local KEPT = 100

-- Decide.
local r = get_schedule(ARGV[4])
if not r then return "GONE" end
if tonumber(at) <= r.high_water_ms or get_firing(firing_of(r, at)) then return "LATE" end
local list = skip_list(r)
local _, asked = string.gsub(list, ",", ",")
if on and asked >= KEPT and not contains(list, at) then return "FULL" end

-- Apply.
set_skips(r, on and add_item(list, at) or list, on and "" or at)
if on ~= contains(list, at) then note_event(on and "skip_asked" or "skip_withdrawn", r, at) end
write_schedules()
write_events()
return "OK"
