package worker

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// processorTime returns what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// newYear is a time at which no job of a test is due.
const newYear = "0 0 0 1 1 *"

// A job hangs, as a call to a Redis that does not answer: the scheduler stops in
// time, says so, and uses no processor meanwhile.
func TestAHangingChoreCostsNoProcessor(t *testing.T) {
	var log strings.Builder
	c, err := newChores(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	began, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	if err := c.add("hang", newYear, func() { close(began); <-release }, gocron.WithStartAt(gocron.WithStartImmediately())); err != nil {
		t.Fatal(err)
	}
	c.scheduler.Start()
	<-began
	before, start := processorTime(t), time.Now()
	c.stop()
	if used := processorTime(t) - before; used > stopTime/4 {
		t.Errorf("stopping used %s of processor time", used)
	}
	if took := time.Since(start); took < stopTime || took > stopTime+5*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if !strings.Contains(log.String(), "did not stop in time") {
		t.Errorf("the log does not tell of the job that was left behind: %s", log.String())
	}
	c.guard(func() { t.Error("a job began after the stop") })()
}

// Without a hanging job nothing is waited for.
func TestChoresThatAreDoneStopAtOnce(t *testing.T) {
	var log strings.Builder
	c, err := newChores(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	if err := c.add("end", newYear, func() { close(done) }, gocron.WithStartAt(gocron.WithStartImmediately())); err != nil {
		t.Fatal(err)
	}
	c.scheduler.Start()
	<-done
	start := time.Now()
	c.stop()
	if took := time.Since(start); took > stopTime || log.Len() > 0 {
		t.Errorf("stopping took %s and said %q", took, log.String())
	}
}
