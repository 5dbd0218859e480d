package lua

// The scripts that repair what the records contradict.
var (
	RecountFirings   = load("recount_firings")
	RecountSchedules = load("recount_schedules")
	RepairBackfills  = load("repair_backfills")
	RepairFirings    = load("repair_firings")
	RepairRecords    = load("repair_records")
	RepairRequests   = load("repair_requests")
	RepairSchedules  = load("repair_schedules")
	RepairToken      = load("repair_token")
)
