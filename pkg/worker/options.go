package worker

import (
	"log/slog"
	"maps"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Options configure a Worker. Only Redis is needed.
type Options struct {
	// Redis holds the schedules. It stays the caller's to close, after Run.
	// Build it with ContextTimeoutEnabled and without maintenance
	// notifications, which Redis of one's own does not have.
	Redis redis.UniversalClient
	// QueueRedis holds the asynq queues; nil is Redis.
	QueueRedis redis.UniversalClient
	Namespace  string // "" is "default"
	Shards     int    // of a namespace that does not exist yet; 0 is 1, or 8 on a Cluster
	// SkewAllowance is how far the clock of Redis may be ahead of this host's
	// before this host's decides what is due; 0 is 500 ms.
	SkewAllowance time.Duration

	Queues      map[string]int // asynq queues to consume, with weights 1 to 100; nil is {"default": 1}
	Concurrency int            // tasks run at the same time; 0 is 20
	NoSchedules bool           // only run tasks, claim nothing
	// PollInterval is how often asynq looks for tasks while its queues are
	// empty; it sleeps a half to one and a half of it. 0 is 200 ms, at least 10 ms.
	PollInterval time.Duration

	ClaimTTL           time.Duration // how soon others take over the claims of a worker that died; 0 is 10 s
	Batch              int           // schedules per claim; 0 is 100
	IdleSleep          time.Duration // longest sleep per shard; 0 is 1 s
	EnqueueConcurrency int           // tasks enqueued with one round trip, at most; 0 is 128
	AuditAfter         time.Duration // when a firing is first audited; 0 is 15 s; at least ClaimTTL
	Lease              time.Duration // of an execution; 0 is 30 s, at least 1 s
	KeepRuns           int           // length of each schedule's run log; 0 is 20
	NoRunLog           bool          // keep no run log; KeepRuns must be 0
	Drain              time.Duration // time for everything to end once Run's context has; 0 is 25 s

	// Periodic are tasks that run inside this process while it holds their
	// claim; they need no handler and no queue.
	Periodic []claim.Periodic
	// Groups run in one process of the fleet only, under a lease each. Name and
	// Build are needed; the stores, the owner, the grace and the logger are the
	// worker's where they are left out.
	Groups []claim.SupervisorOptions

	RetryDelay asynq.RetryDelayFunc // between attempts; nil is asynq's default, 15 s and more
	IsFailure  func(error) bool     // as asynq.Config.IsFailure; nil: every error

	ID       string       // of this worker, unique in the fleet; "" is host, process ID and a random part
	Version  string       // of the program, shown to operators
	Logger   *slog.Logger // nil: dropped
	Observer Observer     // may be nil

	// SimulationNow replaces the clock by which claims are trusted. Leave it
	// nil outside simulations.
	SimulationNow func() time.Time
}

// Defaults and bounds of a Worker; those of scheduling are with
// SchedulerOptions.
const (
	defaultConcurrency = 20
	defaultEnqueue     = 128
	mostConcurrency    = 10_000
	mostWeight         = 100
	defaultLease       = 30 * time.Second
	leastLease         = time.Second
	defaultKeepRuns    = 20
	mostKeepRuns       = 1000
	defaultPoll        = 200 * time.Millisecond
	leastPoll          = 10 * time.Millisecond
	defaultDrain       = 25 * time.Second
	leastDrain         = 100 * time.Millisecond
)

// complete checks the options that SchedulerOptions does not, and fills in
// the defaults.
func (o *Options) complete() error {
	if o.Redis == nil {
		return &schedule.FieldError{Field: "redis", Value: "nil", Allowed: "a Redis client"}
	}
	if o.QueueRedis == nil {
		o.QueueRedis = o.Redis
	}
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if err := schedule.ValidateNamespace(o.Namespace); err != nil {
		return err
	}
	if err := o.completeQueues(); err != nil {
		return err
	}
	if err := o.completeNumbers(); err != nil {
		return err
	}
	if err := orDefault("claim_ttl", &o.ClaimTTL, defaultClaimTTL, leastClaimTTL); err != nil {
		return err
	}
	if err := orDefault("lease", &o.Lease, defaultLease, leastLease); err != nil {
		return err
	}
	if err := orDefault("poll_interval", &o.PollInterval, defaultPoll, leastPoll); err != nil {
		return err
	}
	if err := orDefault("drain", &o.Drain, defaultDrain, leastDrain); err != nil {
		return err
	}
	if o.ID == "" {
		o.ID = newID()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = NopObserver{}
	}
	return nil
}

func (o *Options) completeQueues() error {
	if o.Queues == nil {
		o.Queues = map[string]int{schedule.DefaultQueue: 1}
	}
	if len(o.Queues) == 0 {
		return &schedule.FieldError{Field: "queues", Value: "{}", Allowed: "at least one queue, or nil for default"}
	}
	o.Queues = maps.Clone(o.Queues)
	for name, weight := range o.Queues {
		if err := schedule.ValidateQueue(name); err != nil {
			return err
		}
		if weight < 1 || weight > mostWeight {
			return &schedule.FieldError{Field: "queues." + name, Value: strconv.Itoa(weight), Allowed: "a weight from 1 to 100"}
		}
	}
	return nil
}

func (o *Options) completeNumbers() error {
	if o.NoRunLog && o.KeepRuns != 0 {
		return &schedule.FieldError{Field: "keep_runs", Value: strconv.Itoa(o.KeepRuns), Allowed: "0, since no run log is wanted"}
	}
	if o.KeepRuns == 0 && !o.NoRunLog {
		o.KeepRuns = defaultKeepRuns
	}
	for _, n := range []struct {
		field     string
		value     *int
		byDefault int
		most      int
	}{
		{"concurrency", &o.Concurrency, defaultConcurrency, mostConcurrency},
		{"enqueue_concurrency", &o.EnqueueConcurrency, defaultEnqueue, mostConcurrency},
		{"keep_runs", &o.KeepRuns, 0, mostKeepRuns},
	} {
		if *n.value < 0 || *n.value > n.most {
			return &schedule.FieldError{Field: n.field, Value: strconv.Itoa(*n.value), Allowed: "0 to " + strconv.Itoa(n.most)}
		}
		if *n.value == 0 {
			*n.value = n.byDefault
		}
	}
	return nil
}
