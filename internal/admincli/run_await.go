package admincli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// awaitPoll is how often a command that waits for one run looks.
const awaitPoll = 300 * time.Millisecond

// An awaited run is what became of a firing.
type awaited struct {
	ended    bool // false: the time ran out
	known    bool // false: it is settled, and the run log does not hold how
	outcome  claim.RunOutcome
	error    string
	duration time.Duration
}

// succeeded reports whether that is what the waiting was for.
func (a awaited) succeeded() bool { return a.known && a.outcome == claim.OutcomeSucceeded }

func (a awaited) String() string {
	switch {
	case !a.ended:
		return "has not ended yet"
	case !a.known:
		return "is over; its run log does not hold how it ended"
	}
	text := fmt.Sprintf("%s after %s", a.outcome, fine(max(0, a.duration)))
	if a.error != "" {
		text += ": " + a.error
	}
	return text
}

// await waits until a firing has ended for good; retries are waited for. A limit
// of 0 is none.
func (s *session) await(id schedule.ID, firing claim.FiringID, limit time.Duration) (result awaited, err error) {
	err = s.repeat(limit, awaitPoll, func() (over bool, err error) {
		result, err = s.lookForEnd(id, firing)
		return result.ended, err
	})
	if s.interrupted() || errors.Is(err, context.Canceled) {
		s.warn("interrupted; firing %s goes on: see admin run get %s", firing, shellWord(string(firing)))
		return result, errInterrupted
	}
	return result, err
}

// lookForEnd looks once.
func (s *session) lookForEnd(id schedule.ID, firing claim.FiringID) (awaited, error) {
	open, runs, err := s.lookAt(id, firing)
	if err != nil {
		return awaited{}, err
	}
	for _, r := range runs {
		if r.Outcome != claim.OutcomeRetrying {
			return awaited{ended: true, known: true, outcome: r.Outcome, error: r.Error, duration: r.Duration}, nil
		}
	}
	return awaited{ended: open == nil}, nil
}

// lookAt reads what the ledger holds of a firing, nil when it is not open, and
// its runs, newest first. The ledger comes first: what ends between the two calls
// is in the log then.
func (s *session) lookAt(id schedule.ID, firing claim.FiringID) (open *claim.OpenFiring, runs []claim.RunRecord, err error) {
	if open, err = s.openFiring(firing); err != nil {
		return nil, nil, err
	}
	err = s.within(func(ctx context.Context) (err error) {
		runs, err = s.stores.Runs.Runs(ctx, id, maxRuns)
		return err
	})
	return open, slices.DeleteFunc(runs, func(r claim.RunRecord) bool { return r.Firing != firing }), err
}
