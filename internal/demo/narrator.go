package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A Narrator writes one line for each firing and each run.
type Narrator struct {
	worker.NopObserver

	mu  sync.Mutex
	out io.Writer
}

// NewNarrator writes to out.
func NewNarrator(out io.Writer) *Narrator { return &Narrator{out: out} }

const clock = "15:04:05.000"

func (n *Narrator) line(verb, subject, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	// A terminal that went away is no reason to stop.
	_, _ = fmt.Fprintf(n.out, "%s  %-5s  %-16s  %s\n", time.Now().Format(clock), verb, subject, fmt.Sprintf(format, args...))
}

// Enqueued tells of a firing.
func (n *Narrator) Enqueued(e queue.EnqueuedEvent) {
	firing, err := claim.ParseFiringID(string(e.Firing))
	switch {
	case err != nil:
	case firing.Kind == claim.KindManual:
		n.line("fired", string(firing.Schedule), "by a trigger, into queue %s", e.Queue)
	default:
		late := time.Since(firing.ScheduledAt).Round(time.Millisecond)
		n.line("fired", string(firing.Schedule), "for %s, %s later, into queue %s", firing.ScheduledAt.Local().Format(clock), late, e.Queue)
	}
}

// RunEnded tells of a run.
func (n *Narrator) RunEnded(e queue.RunEvent) {
	outcome := string(e.Outcome)
	if outcome == "" {
		outcome = "not reported"
	}
	text := fmt.Sprintf("%s, attempt %d, took %s", outcome, e.Firing.Attempt, e.Duration.Round(100*time.Microsecond))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	n.line("ran", string(e.Firing.Schedule), "%s", text)
}

// Isolated tells of a schedule that was put aside.
func (n *Narrator) Isolated(e worker.IsolatedEvent) {
	n.line("aside", string(e.Schedule), "%s", e.Err)
}

// Redriven tells of a task that was lost.
func (n *Narrator) Redriven(e queue.AuditEvent) {
	n.line("again", string(e.Firing), "the task was lost: %s", e.Reason)
}

// Greet says what this is and how to reach it. The password in it belongs to
// this run alone.
func (n *Narrator) Greet(url, health string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = fmt.Fprintf(n.out, `
*** DEMO: schedules and tasks live in this process only. NOTHING IS DURABLE: ***
*** all is gone when it stops. Set BELFRY_REDIS_URL to use a real Redis.     ***

Look at it from another terminal:

  export BELFRY_REDIS_URL=%s
  go run ./cmd/admin schedule list
  go run ./cmd/admin schedule create hello --every 3s --type log --payload '{"message":"hello"}'

`, url) // a terminal that went away is no reason to stop
	if health != "" {
		_, _ = fmt.Fprintf(n.out, "Health: %s/readyz\n", health)
	}
	_, _ = fmt.Fprint(n.out, "Ctrl-C stops it.\n\n")
}
