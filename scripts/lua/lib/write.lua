-- One native command per key for the whole batch, and one per event.
local function write_all()
  write_firings()
  write_schedules()
  write_lists()
  write_moves()
  write_events()
end
