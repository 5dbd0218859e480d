package gocronx

import (
	"errors"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/go-co-op/gocron/v2"
)

// A Cron computes the run times of one gocron job. Hand it over with
// gocron.WithCronImplementation, a new one for each job: gocron stores the
// parsed expression in it. Leave the job's DaylightSavingsTimePolicy alone;
// the engine has dealt with clock changes already.
type Cron struct {
	id   schedule.ID
	spec schedule.Spec
}

var _ gocron.Cron = (*Cron)(nil)

// CronOptions refine NewCron. The zero value refuses H.
type CronOptions struct {
	// ScheduleID is what H in an expression is hashed from, such as the name
	// of the job: the same ID gives the same minute on every process.
	ScheduleID schedule.ID
}

// NewCron returns a Cron for one job.
func NewCron(options CronOptions) *Cron { return &Cron{id: options.ScheduleID} }

// errNever reports an expression that has no run left.
var errNever = errors.New("gocronx: the expression never fires again: correct it")

// IsValid parses the expression, in the scheduler's location unless it starts
// with TZ= or CRON_TZ=. It returns a *schedule.FieldError for one that is
// refused. gocron calls it once, when the job is made.
func (c *Cron) IsValid(crontab string, location *time.Location, now time.Time) error {
	if strings.HasPrefix(crontab, "TZ=") || strings.HasPrefix(crontab, "CRON_TZ=") {
		location = nil // the expression decides
	}
	spec, err := schedule.ParseCronWith(crontab, schedule.CronOptions{Location: location, ScheduleID: c.id})
	if err != nil {
		return err
	}
	if _, ok := spec.Next(now); !ok {
		return errNever
	}
	c.spec = spec
	return nil
}

// Next returns the first run after lastRun, and the zero time when there is
// none or when IsValid has not succeeded.
func (c *Cron) Next(lastRun time.Time) time.Time {
	if c.spec == nil {
		return time.Time{}
	}
	next, ok := c.spec.Next(lastRun)
	if !ok {
		return time.Time{}
	}
	// When clocks go back an hourly job runs at 01:30 twice, and should. gocron
	// takes a next run with the wall clock of the last one for a mistake and
	// drops it; the same instant told in another zone passes.
	if sameWallClock(lastRun, next) {
		next = next.In(time.FixedZone("UTC+24", 24*60*60))
	}
	return next
}

func sameWallClock(a, b time.Time) bool {
	return a.Format(time.DateTime) == b.Format(time.DateTime)
}
