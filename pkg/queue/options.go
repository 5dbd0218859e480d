package queue

import (
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// checkCollaborators refuses what is missing.
func checkCollaborators(ledger claim.Ledger, catalog schedule.Catalog, enqueuer *Enqueuer) error {
	missing := func(field, what string) error {
		return &schedule.FieldError{Field: field, Value: "nil", Allowed: what}
	}
	switch {
	case ledger == nil:
		return missing("ledger", "a claim.Ledger")
	case catalog == nil:
		return missing("catalog", "a schedule.Catalog")
	case enqueuer == nil:
		return missing("enqueuer", "an Enqueuer")
	}
	return nil
}

// durationOr returns d, or otherwise for 0, and refuses less than least.
func durationOr(field string, d, otherwise, least time.Duration) (time.Duration, error) {
	if d == 0 {
		return otherwise, nil
	}
	if d < least {
		return 0, &schedule.FieldError{Field: field, Value: d.String(), Allowed: "0 for " + otherwise.String() + ", or " + least.String() + " and more"}
	}
	return d, nil
}

// notNegative refuses numbers below 0.
func notNegative(field string, n int) error {
	if n < 0 {
		return &schedule.FieldError{Field: field, Value: strconv.Itoa(n), Allowed: "0 or more"}
	}
	return nil
}
