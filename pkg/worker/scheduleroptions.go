package worker

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// Defaults and bounds of the scheduling half.
const (
	defaultClaimTTL   = 10 * time.Second
	leastClaimTTL     = time.Second
	defaultBatch      = 100
	mostBatch         = 500
	defaultAuditAfter = 15 * time.Second
	defaultIdleSleep  = time.Second
	leastIdleSleep    = 10 * time.Millisecond
	mostID            = 128
)

// complete checks the options and fills in the defaults.
func (o *SchedulerOptions) complete() error {
	missing := ""
	switch {
	case o.Definitions == nil:
		missing = "definitions"
	case o.Claims == nil:
		missing = "claims"
	case o.Settler == nil:
		missing = "settler"
	case o.Waker == nil:
		missing = "waker"
	case o.Enqueuer == nil:
		missing = "enqueuer"
	case o.Auditor == nil:
		missing = "auditor"
	}
	if missing != "" {
		return &schedule.FieldError{Field: missing, Value: "nil", Allowed: "a value"}
	}
	if len(o.ID) < 1 || len(o.ID) > mostID {
		return &schedule.FieldError{Field: "id", Value: o.ID, Allowed: "1 to 128 bytes"}
	}
	if o.Batch < 0 || o.Batch > mostBatch {
		return &schedule.FieldError{Field: "batch", Value: strconv.Itoa(o.Batch), Allowed: "1 to 500, or 0 for 100"}
	}
	if o.KeepRuns < 0 {
		return &schedule.FieldError{Field: "keep_runs", Value: strconv.Itoa(o.KeepRuns), Allowed: "0 or more"}
	}
	if o.Batch == 0 {
		o.Batch = defaultBatch
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = NopObserver{}
	}
	return o.completeTimes()
}

func (o *SchedulerOptions) completeTimes() error {
	if err := orDefault("claim_ttl", &o.ClaimTTL, defaultClaimTTL, leastClaimTTL); err != nil {
		return err
	}
	if o.AuditAfter == 0 {
		o.AuditAfter = max(defaultAuditAfter, o.ClaimTTL)
	}
	if o.AuditAfter < o.ClaimTTL {
		return &schedule.FieldError{Field: "audit_after", Value: o.AuditAfter.String(),
			Allowed: "at least the claim TTL, which is " + o.ClaimTTL.String()}
	}
	if o.Grace < 0 {
		return &schedule.FieldError{Field: "grace", Value: o.Grace.String(), Allowed: "0 or more"}
	}
	if o.Grace == 0 {
		o.Grace = o.ClaimTTL / 2
	}
	return orDefault("idle_sleep", &o.IdleSleep, defaultIdleSleep, leastIdleSleep)
}

// orDefault replaces 0 by the default and refuses what is below least.
func orDefault(field string, d *time.Duration, byDefault, least time.Duration) error {
	if *d == 0 {
		*d = byDefault
	}
	if *d < least {
		return &schedule.FieldError{Field: field, Value: d.String(), Allowed: "at least " + least.String() + ", or 0 for " + byDefault.String()}
	}
	return nil
}
