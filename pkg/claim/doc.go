// Package claim decides which worker may act on a firing, and holds the
// contracts of the stores that decide it.
//
// # State
//
// Every enabled schedule with a next scheduled time stands in one index,
// scored by when it is due. A claim moves it there to the claim's deadline and
// writes an intent into the ledger of open firings; completing the claim moves
// it to its next due time. A firing is a scheduled time of a schedule, or a
// manual run:
//
//	claim -> intent -> enqueued -> running -> settled (removed)
//	                       ^          |
//	                       +- waiting <  (a retry is due later)
//
// The ledger holds open firings only. Beside it every schedule has a
// high-water mark: what lies at or below it and is not in the ledger is
// settled, for ever. No time horizon is involved.
//
// # Time
//
// The store's clock decides what is due, capped by the caller's clock plus an
// allowance, so that both must agree before anything fires. A holder trusts
// its claim until a local deadline that was fixed before the request was sent.
//
// # Fencing
//
// Every grant carries a [Token] larger than the one before. Renew, complete,
// release, heartbeat and finish carry it; a worker that slept, however long,
// changes nothing when it wakes.
//
// # In process
//
// Work that is not queued runs inside the process that claims it. A
// [PeriodicRunner] takes the tasks of a [PeriodicStore] through their rounds:
// claim, run and renew, record, complete. A [Keeper] holds a lease and says
// when it is lost; a [Supervisor] runs a group of singletons and periodic
// tasks under one.
//
// # Limits
//
// A lease cannot give mutual exclusion over code that does not check the
// token. Runs are at least once; code that must not take effect twice uses the
// firing ID as its idempotency key, and refuses smaller tokens where it can.
// A store that loses acknowledged writes can grant twice.
package claim
