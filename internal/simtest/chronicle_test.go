package simtest

import (
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/worker"
)

// A chronicle notes what was seen of every firing, from outside the store.
type chronicle struct {
	t *testing.T

	mu       sync.Mutex
	enqueued map[claim.FiringID][]sight // tasks that reached a queue
	started  map[claim.FiringID][]sight // handlers that ran
	ended    map[claim.FiringID][]sight // attempts that were reported
	audited  []string                   // what auditors had to repair
	gaveUp   []string                   // what they could not
	isolated []string                   // schedules that were put aside
}

// A sight is one thing that happened to a firing.
type sight struct {
	who     string // the worker
	at      time.Time
	queue   string
	kind    string // type of the task
	outcome claim.RunOutcome
}

func newChronicle(t *testing.T) *chronicle {
	return &chronicle{t: t, enqueued: map[claim.FiringID][]sight{}, started: map[claim.FiringID][]sight{},
		ended: map[claim.FiringID][]sight{}}
}

// add notes a sight in one of the maps.
func (c *chronicle) add(to map[claim.FiringID][]sight, id claim.FiringID, s sight) {
	s.at = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	to[id] = append(to[id], s)
}

// enqueuedBy counts what a worker enqueued.
func (c *chronicle) enqueuedBy(who string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sights := range c.enqueued {
		for _, s := range sights {
			if s.who == who {
				n++
			}
		}
	}
	return n
}

// observer returns an observer that writes into the chronicle for a worker.
// Bell, if not nil, is told of every queue that got a task.
func (c *chronicle) observer(who string, bell func(queue string)) worker.Observer {
	return &observer{log: c, who: who, bell: bell}
}

type observer struct {
	worker.NopObserver
	log  *chronicle
	who  string
	bell func(queue string)
}

func (o *observer) Enqueued(e queue.EnqueuedEvent) {
	if e.TaskID != string(e.Firing) {
		o.audit("a task with the ID " + e.TaskID + " was enqueued")
	}
	o.log.add(o.log.enqueued, e.Firing, sight{who: o.who, queue: e.Queue, kind: e.Type})
	if o.bell != nil {
		o.bell(e.Queue)
	}
}

func (o *observer) RunEnded(e queue.RunEvent) {
	o.log.add(o.log.ended, e.Firing.ID, sight{who: o.who, queue: e.Queue, kind: e.Type, outcome: e.Outcome})
}

func (o *observer) Redriven(e queue.AuditEvent) {
	o.audit("re-driven: " + string(e.Firing) + ": " + e.Reason)
}

func (o *observer) Settled(e queue.AuditEvent) {
	what := "settled as " + string(e.Outcome) + ": " + string(e.Firing) + ": " + e.Reason
	o.audit(what)
	if e.Outcome != claim.OutcomeSucceeded {
		o.log.mu.Lock()
		defer o.log.mu.Unlock()
		o.log.gaveUp = append(o.log.gaveUp, o.who+": "+what)
	}
}

func (o *observer) Isolated(e worker.IsolatedEvent) {
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	o.log.isolated = append(o.log.isolated, string(e.Schedule)+": "+e.Err.Error())
}

func (o *observer) audit(what string) {
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	o.log.audited = append(o.log.audited, o.who+": "+what)
}
