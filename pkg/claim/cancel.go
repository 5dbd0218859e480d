package claim

import "context"

// A Canceller ends open firings because an operator wants it.
type Canceller interface {
	// Cancel ends a firing that is buffered, and asks whoever has another one to
	// end it: an attempt hears of it with its next heartbeat, and the auditor of
	// any worker deletes a task that waits. Either way its outcome is
	// OutcomeCancelled, unless the run ends on its own account before it hears
	// of it. A scheduled time that is only promised by an interrupted claim is
	// enqueued before it is cancelled, so that it keeps its verdict. Calling it
	// again is harmless. A *schedule.FieldError tells that the ID is none.
	Cancel(ctx context.Context, request CancelRequest) (CancelResult, error)
}

// CancelRequest asks for the end of a firing.
type CancelRequest struct {
	Firing     FiringID // or a task ID of it
	By, Reason string   // for people; may be empty
	KeepRuns   int      // length of the run log, for a firing that Cancel closes; 0: it is not logged
}

// CancelAnswer is what Cancel says.
type CancelAnswer string

// The answers.
const (
	CancelDone   CancelAnswer = "CANCELLED" // it was buffered and is closed
	CancelAsked  CancelAnswer = "ASKED"     // it is open until its run has ended or its task was deleted
	CancelEarly  CancelAnswer = "EARLY"     // a scheduled time that has no verdict yet: skip it instead
	CancelClosed CancelAnswer = "CLOSED"    // it is not open: it ended before, or there never was one
	CancelGone   CancelAnswer = "GONE"      // there is no schedule of its generation
)

// CancelResult answers CancelRequest.
type CancelResult struct {
	Answer CancelAnswer
	Firing OpenFiring // with CancelAsked
}
