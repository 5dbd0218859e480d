package lua

// The scripts of periodic tasks.
var (
	PeriodicClaim    = load("periodic_claim")
	PeriodicComplete = load("periodic_complete")
	PeriodicEnsure   = load("periodic_ensure")
	PeriodicList     = load("periodic_list")
	PeriodicPause    = load("periodic_pause")
	PeriodicRenew    = load("periodic_renew")
	PeriodicResume   = load("periodic_resume")
	PeriodicTrigger  = load("periodic_trigger")
)
