package storm

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/queue"
)

// States of a task, as asynq writes them.
const (
	pending   = "pending"
	active    = "active"
	retrying  = "retry"
	archived  = "archived"
	completed = "completed"
	gone      = "gone" // no state of asynq's: it deletes the task
)

// asynq's own constants.
const (
	taskLease    = 30 * time.Second // of an active task
	leaseBeat    = 5 * time.Second  // between two extensions of it
	leaseSlack   = 30 * time.Second // before the lease of a dead server is recovered
	recoverEvery = time.Minute
	serverTTL    = 10 * time.Second // after which a dead server is forgotten
)

// A task is a hash of asynq's. A stub is one that a dequeue made of the ID of
// a task whose hash had been lost: asynq never recovers it.
type task struct {
	info      *asynq.TaskInfo // as enqueued
	msg       []byte          // likewise, as stored
	state     string
	stub      bool
	keep      bool // for its retention, when it succeeded
	retried   int
	lastErr   string
	lease     time.Time // with active
	processAt time.Time // with retry
	expires   time.Time // with completed
}

// A broker is a model of asynq's side of Redis. Every method is one script.
// Its completions are not fenced: they act on whatever is active under the ID.
type broker struct {
	sim     *sim
	keep    bool // completed tasks are kept for their retention
	tasks   map[string]*task
	waiting []string // keys of pending tasks, oldest first
	servers map[string]*server
	bells   map[string]chan struct{} // of consumers, by process
	cancels map[string][]func()      // by task ID: deliveries that CancelProcessing ends
}

// A server is what a consumer publishes about itself.
type server struct {
	running map[string]bool // task IDs
	left    time.Time       // when its process died; zero: it lives
}

func newBroker(s *sim) *broker {
	return &broker{sim: s, keep: !s.c.noRetention, tasks: map[string]*task{}, servers: map[string]*server{},
		bells: map[string]chan struct{}{}, cancels: map[string][]func(){}}
}

// tidy does what asynq's forwarder and janitor do all the time.
func (b *broker) tidy() {
	now := time.Now()
	for _, key := range slices.Sorted(maps.Keys(b.tasks)) {
		switch t := b.tasks[key]; {
		case t.state == completed && !t.expires.After(now):
			delete(b.tasks, key)
		case t.state == retrying && !t.processAt.After(now):
			t.state = pending
			b.waiting = append(b.waiting, key)
		}
	}
}

// ring tells idle consumers that there is work.
func (b *broker) ring() {
	for _, bell := range b.bells {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// enqueue reports false when the ID is taken.
func (b *broker) enqueue(key string, msg []byte, info *asynq.TaskInfo) bool {
	b.tidy()
	if b.tasks[key] != nil {
		return false
	}
	b.tasks[key] = &task{info: info, msg: msg, state: pending, keep: b.keep}
	b.waiting = append(b.waiting, key)
	b.sim.witness.enqueued(info)
	b.ring()
	return true
}

// dequeue hands out the oldest pending task, or, when asked to, once more one
// that is active elsewhere; "" when there is none.
func (b *broker) dequeue(who string, again bool, d *dice) string {
	b.tidy()
	if again {
		if twice := b.keys(active, true); len(twice) > 0 {
			b.sim.count("delivered twice")
			return b.deliver(who, twice[d.pick(len(twice))])
		}
	}
	for len(b.waiting) > 0 {
		key := b.waiting[0]
		b.waiting = b.waiting[1:]
		t := b.tasks[key]
		if t == nil { // the hash is gone, the ID is not
			b.tasks[key] = &task{state: active, stub: true}
			b.sim.count("stub of a lost task")
			continue
		}
		if t.state == pending {
			return b.deliver(who, key)
		}
	}
	return ""
}

func (b *broker) deliver(who, key string) string {
	t := b.tasks[key]
	t.state, t.lease = active, time.Now().Add(taskLease)
	if s := b.servers[who]; s != nil {
		s.running[t.info.ID] = true
	}
	return key
}

// keys returns the keys of tasks in a state, sorted; real leaves out stubs.
func (b *broker) keys(state string, real bool) []string {
	var keys []string
	for key, t := range b.tasks {
		if t.state == state && !(real && t.stub) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// extend prolongs the leases of active tasks.
func (b *broker) extend(keys []string) {
	for _, key := range keys {
		if t := b.tasks[key]; t != nil && t.state == active && !t.stub {
			t.lease = time.Now().Add(taskLease)
		}
	}
}

// errNotActive is asynq's answer to a completion of what is not active.
const errNotActive = redistest.Refusal("NOT FOUND")

// end returns the state that asynq gives a task whose handler returned cause.
func (t *task) end(cause error) string {
	switch {
	case cause == nil && t.keep && t.info.Retention > 0:
		return completed
	case cause == nil, errors.Is(cause, asynq.RevokeTask):
		return gone
	case errors.Is(cause, asynq.SkipRetry), t.retried >= t.info.MaxRetry:
		return archived
	default:
		return retrying
	}
}

// finish is Done, MarkAsComplete, Retry or Archive.
func (b *broker) finish(key, end string, cause error, delay time.Duration, failure bool) error {
	t := b.tasks[key]
	if t == nil || t.state != active || t.stub {
		return errNotActive
	}
	switch t.state = end; end {
	case completed:
		t.expires = time.Now().Add(t.info.Retention)
	case gone:
		delete(b.tasks, key)
		if handedBack := new(queue.HandBackError); errors.As(cause, &handedBack) { // costs a re-drive, as a task that is lost
			b.sim.witness.lostTask(key)
		}
	case archived:
		t.lastErr = cause.Error()
	default:
		t.lastErr, t.processAt = cause.Error(), time.Now().Add(delay)
		if failure {
			t.retried++
		}
		time.AfterFunc(delay+time.Millisecond, func() { b.sim.atomically(b.ring) })
	}
	return nil
}

// recover takes back the tasks of servers that died.
func (b *broker) recover(delay func(int, error, *asynq.Task) time.Duration) {
	for _, key := range b.keys(active, true) {
		t := b.tasks[key]
		if t.lease.Add(leaseSlack).After(time.Now()) {
			continue
		}
		b.sim.count("recovered by asynq")
		wait := delay(t.retried, asynq.ErrLeaseExpired, asynq.NewTaskWithHeaders(t.info.Type, t.info.Payload, t.info.Headers))
		_ = b.finish(key, t.end(asynq.ErrLeaseExpired), asynq.ErrLeaseExpired, wait, true) // it is active
	}
}

// remove is DeleteTask: 1 deleted, 0 not found, -1 active.
func (b *broker) remove(key string) int64 {
	b.tidy()
	t := b.tasks[key]
	switch {
	case t == nil:
		return 0
	case t.state == active:
		return -1
	}
	delete(b.tasks, key)
	return 1
}

// archive is ArchiveTask: 1 archived, 0 not found, -1 archived before, -2 active.
func (b *broker) archive(key string) int64 {
	b.tidy()
	t := b.tasks[key]
	switch {
	case t == nil:
		return 0
	case t.state == active:
		return -2
	case t.state == archived:
		return -1
	}
	t.state = archived
	b.sim.count("archived by the auditor")
	return 1
}

// lose forgets the hash of some task.
func (b *broker) lose(d *dice) {
	keys := append(b.keys(pending, true), b.keys(active, true)...)
	keys = append(keys, b.keys(retrying, true)...)
	if len(keys) == 0 {
		return
	}
	key := keys[d.pick(len(keys))]
	b.sim.note("redis", "lose task", key, b.tasks[key].state)
	delete(b.tasks, key)
	b.sim.count("task lost")
	b.sim.witness.lostTask(key)
}

// joined and left keep the list of servers.
func (b *broker) joined(who string) chan struct{} {
	bell := make(chan struct{}, 1)
	b.servers[who], b.bells[who] = &server{running: map[string]bool{}}, bell
	return bell
}

func (b *broker) left(who string) {
	delete(b.bells, who)
	if s := b.servers[who]; s != nil && s.left.IsZero() {
		s.left = time.Now()
	}
}

// ended takes a task off the list of what a server runs.
func (b *broker) ended(who, id string) {
	if s := b.servers[who]; s != nil {
		delete(s.running, id)
	}
}

// alive returns the servers that are still listed.
func (b *broker) alive() []string {
	var alive []string
	for who, s := range b.servers {
		if s.left.IsZero() || time.Since(s.left) < serverTTL {
			alive = append(alive, who)
		}
	}
	slices.Sort(alive)
	return alive
}

// cancel is CancelProcessing.
func (b *broker) cancel(id string) {
	for _, cancel := range b.cancels[id] {
		cancel()
	}
}

// snapshot copies all tasks and returns a function that puts them back.
func (b *broker) snapshot() (restore func()) {
	kept, waiting := map[string]task{}, slices.Clone(b.waiting)
	for key, t := range b.tasks {
		kept[key] = *t
	}
	return func() {
		for _, key := range slices.Sorted(maps.Keys(b.tasks)) {
			if _, ok := kept[key]; !ok {
				b.sim.witness.lostTask(key)
			}
		}
		b.tasks, b.waiting = map[string]*task{}, slices.Clone(waiting)
		for key, t := range kept {
			one := t
			b.tasks[key] = &one
		}
		b.ring()
	}
}

// quiet reports whether nothing waits or runs.
func (b *broker) quiet() bool {
	b.tidy()
	return len(b.keys(pending, true)) == 0 && len(b.keys(active, true)) == 0 && len(b.keys(retrying, true)) == 0
}

// queueOf and idOf read the key of a task's hash: asynq:{queue}:t:id.
func queueOf(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	queue, _, _ := strings.Cut(rest, "}")
	return queue
}

func idOf(key string) string {
	_, id, _ := strings.Cut(key, ":t:")
	return id
}
