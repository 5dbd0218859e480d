-- One native command per key for the whole batch.
local function write_all()
  write_firings()
  write_schedules()
  write_lists()
  write_moves()
end
