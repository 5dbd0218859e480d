package gocronx_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/pkg/gocronx"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// runs lets a gocron scheduler work from start for the given time, and returns
// when its job ran, in UTC.
func runs(t *testing.T, zone, crontab string, start time.Time, span time.Duration) []string {
	t.Helper()
	var got []string
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start))
		scheduler, err := gocron.NewScheduler(gocron.WithLocation(location(t, zone)))
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		_, err = scheduler.NewJob(gocron.CronJob(crontab, true), gocron.NewTask(func() {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, time.Now().UTC().Format("01-02 15:04"))
		}), gocron.WithCronImplementation(gocronx.NewCron(gocronx.CronOptions{})))
		if err != nil {
			t.Fatalf("NewJob(%q): %v", crontab, err)
		}
		scheduler.Start()
		time.Sleep(span)
		if err := scheduler.Shutdown(); err != nil {
			t.Fatal(err)
		}
	})
	return got
}

func TestGocronRunsAcrossClockChanges(t *testing.T) {
	tests := []struct {
		name, zone, crontab string
		start               time.Time
		span                time.Duration
		want                []string
	}{
		{"a time inside the gap runs once, when the gap ends", "America/New_York", "30 2 * * *",
			time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC), 72 * time.Hour, []string{"03-07 07:30", "03-08 07:00", "03-09 06:30"}},
		{"a time inside the overlap runs once", "America/New_York", "30 1 * * *",
			time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC), 72 * time.Hour, []string{"10-31 05:30", "11-01 05:30", "11-02 06:30"}},
		{"an hourly job runs in both hours of the overlap", "America/New_York", "30 * * * *",
			time.Date(2026, 11, 1, 4, 0, 0, 0, time.UTC), 4 * time.Hour, []string{"11-01 04:30", "11-01 05:30", "11-01 06:30", "11-01 07:30"}},
		{"the location of the expression wins", "America/New_York", "CRON_TZ=Europe/London 0 9 * * *",
			time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC), 48 * time.Hour, []string{"10-24 08:00", "10-25 09:00"}},
		{"a two-hourly job two hours east of UTC skips nothing", "Europe/Helsinki", "0 */2 * * *",
			time.Date(2026, 1, 5, 0, 30, 0, 0, time.UTC), 6 * time.Hour, []string{"01-05 02:00", "01-05 04:00", "01-05 06:00"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, runs(t, tt.zone, tt.crontab, tt.start, tt.span)); diff != "" {
				t.Errorf("%s in %s:\n%s", tt.crontab, tt.zone, diff)
			}
		})
	}
}

func TestIsValidRefuses(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, crontab := range []string{"", "61 * * * *", "0 0 30 2 *", "TZ=Mars/Phobos 0 0 * * *", "0 0 0 1 1 * 2020", "H * * * *"} {
		c := gocronx.NewCron(gocronx.CronOptions{})
		if err := c.IsValid(crontab, time.UTC, now); err == nil {
			t.Errorf("IsValid(%q) = nil, want an error", crontab)
		}
		if next := c.Next(now); !next.IsZero() {
			t.Errorf("Next after the refused %q = %s, want the zero time", crontab, next)
		}
	}
	var field *schedule.FieldError
	if err := gocronx.NewCron(gocronx.CronOptions{}).IsValid("61 * * * *", time.UTC, now); !errors.As(err, &field) {
		t.Errorf("IsValid(61 * * * *) = %T, want a *schedule.FieldError", err)
	}
}

func TestNewJobRefusesABadExpression(t *testing.T) {
	scheduler, err := gocron.NewScheduler()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scheduler.Shutdown() })
	_, err = scheduler.NewJob(gocron.CronJob("61 * * * *", true), gocron.NewTask(func() {}),
		gocron.WithCronImplementation(gocronx.NewCron(gocronx.CronOptions{})))
	if err == nil {
		t.Error("NewJob(61 * * * *) = nil, want an error")
	}
}

func ExampleNewCron() {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(newYork))
	if err != nil {
		panic(err)
	}
	// 02:30 does not exist in New York on 8 March 2026. The job runs that day
	// all the same.
	_, err = scheduler.NewJob(gocron.CronJob("30 2 * * *", false), gocron.NewTask(func() {}),
		gocron.WithCronImplementation(gocronx.NewCron(gocronx.CronOptions{})))
	fmt.Println(err, scheduler.Shutdown())
	// Output: <nil> <nil>
}
