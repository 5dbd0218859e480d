package queue

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

// A strictReader refuses a call that names what is no firing, as the store does.
type strictReader struct{}

func (strictReader) Firings(_ context.Context, ids []claim.FiringID) (map[claim.FiringID]claim.OpenFiring, time.Time, error) {
	for _, id := range ids {
		if _, err := claim.ParseFiringID(string(id)); err != nil {
			return nil, time.Time{}, err
		}
	}
	return map[claim.FiringID]claim.OpenFiring{}, time.Now(), nil
}

// TestLookAtWhatIsNoFiringKeepsNoOtherBack: the list of open firings of one
// schedule holds garbage, and another waits for a firing that has ended.
func TestLookAtWhatIsNoFiringKeepsNoOtherBack(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		b.auditor.reader = strictReader{}
		result, err := b.auditor.Look(t.Context(), []claim.FiringID{"other:x:y:z", firingAt(1), "::"})
		if err == nil || !strings.Contains(err.Error(), "other:x:y:z") {
			t.Errorf("the error names no garbage: %v", err)
		}
		if len(result.Ended) != 1 || result.Ended[0] != firingAt(1) {
			t.Errorf("ended %v, want %s", result.Ended, firingAt(1))
		}
		if result, err := b.auditor.Look(t.Context(), []claim.FiringID{"::"}); err == nil || len(result.Ended) > 0 {
			t.Errorf("Look at garbage alone = %+v, %v", result, err)
		}
	})
}
