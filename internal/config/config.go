package config

import (
	"log/slog"
	"time"
)

// A Worker is the configuration of cmd/worker. The tags say which variable
// sets a field, what it is when unset, and which values are accepted.
type Worker struct {
	Redis    Redis
	Schedule Schedule
	Run      Run
	Handlers Handlers
	Process  Process

	// Warnings are sentences about what was accepted and looks mistaken, such
	// as an unknown BELFRY_ variable. Log them.
	Warnings []string `env:"-"`
}

// Redis says where the store is.
type Redis struct {
	URL       RedisURL `env:"BELFRY_REDIS_URL" secret:"true" allowed:"redis://, rediss://, redis-sentinel:// or rediss-sentinel:// URL" help:"The Redis that holds schedules and queues. Needed unless the worker runs with --demo."`
	Namespace string   `env:"BELFRY_NAMESPACE" envDefault:"default" allowed:"1 to 32 letters, digits or '-'" help:"Fleets with different namespaces share a Redis without seeing each other's schedules. Queues are asynq's and are shared: give each fleet queues of its own, or each takes tasks of the other and hands them back, which makes them late."`
	Shards    int      `env:"BELFRY_SHARDS" envDefault:"0" min:"0" max:"256" help:"Shards of a namespace that does not exist yet: how many Redis nodes can share the work. 0 is 1, or 8 on a Cluster. An existing namespace keeps its own."`
	PoolSize  int      `env:"BELFRY_REDIS_POOL_SIZE" envDefault:"0" min:"0" max:"10000" help:"Connections per Redis node and client; 0 is go-redis's default, 10 per CPU."`
	CAFile    string   `env:"BELFRY_REDIS_CA_FILE" allowed:"a file of PEM certificates" help:"Authorities that the server's certificate is checked against, instead of the system's. For rediss:// only."`
	CertFile  string   `env:"BELFRY_REDIS_CERT_FILE" allowed:"a PEM certificate" help:"Client certificate; needs BELFRY_REDIS_KEY_FILE."`
	KeyFile   string   `env:"BELFRY_REDIS_KEY_FILE" allowed:"a PEM key" help:"Key of the client certificate; needs BELFRY_REDIS_CERT_FILE."`
}

// Schedule says how due schedules are claimed and enqueued.
type Schedule struct {
	Enabled            bool          `env:"BELFRY_SCHEDULE" envDefault:"true" help:"Whether this worker claims due schedules; false makes it only run tasks."`
	ClaimTTL           time.Duration `env:"BELFRY_CLAIM_TTL" envDefault:"10s" min:"2s" max:"10m" help:"How long a claim lasts unless renewed: another worker takes over a dead one's work after this time."`
	Batch              int           `env:"BELFRY_CLAIM_BATCH" envDefault:"100" min:"1" max:"500" help:"Schedules claimed with one call."`
	AuditAfter         time.Duration `env:"BELFRY_AUDIT_AFTER" envDefault:"15s" min:"1s" max:"10m" help:"When a firing is first looked at by the auditor, which finds lost tasks. At least BELFRY_CLAIM_TTL."`
	IdleSleep          time.Duration `env:"BELFRY_IDLE_SLEEP" envDefault:"1s" min:"100ms" max:"10m" help:"How long a worker sleeps at most, for each shard, while nothing is due. Changes wake it earlier."`
	Skew               time.Duration `env:"BELFRY_CLOCK_SKEW" envDefault:"500ms" min:"1ms" max:"1m" help:"How far the clock of Redis may be ahead of this host's before nothing fires until this host's clock agrees."`
	EnqueueConcurrency int           `env:"BELFRY_ENQUEUE_CONCURRENCY" envDefault:"128" min:"1" max:"1000" help:"Tasks enqueued with one round trip to Redis, at most."`
}

// Run says how tasks are run.
type Run struct {
	Queues      Queues        `env:"BELFRY_QUEUES" envDefault:"default=1" allowed:"queue names with weights from 1 to 100, such as default=3,low=1" help:"Queues that this worker consumes. A queue with weight 3 is looked at three times as often as one with weight 1."`
	Concurrency int           `env:"BELFRY_CONCURRENCY" envDefault:"20" min:"1" max:"10000" help:"Tasks run at the same time."`
	Lease       time.Duration `env:"BELFRY_EXECUTION_LEASE" envDefault:"30s" min:"2s" max:"10m" help:"How long a run counts as alive without a sign of life. A dead worker's runs are repeated after this time."`
	Poll        time.Duration `env:"BELFRY_POLL_INTERVAL" envDefault:"200ms" min:"10ms" max:"1m" help:"How often a worker looks for tasks while its queues are empty. Shorter starts tasks sooner and asks Redis more often."`
	KeepRuns    int           `env:"BELFRY_KEEP_RUNS" envDefault:"20" min:"0" max:"1000" help:"Runs kept in the log of each schedule; 0 keeps none."`
	Drain       time.Duration `env:"BELFRY_DRAIN" envDefault:"25s" min:"1s" max:"1h" help:"How long running tasks may take to end once the worker is told to stop. Keep the orchestrator's grace period above it."`
}

// Handlers configure the task handlers of the stock worker.
type Handlers struct {
	HTTPHosts  []string `env:"BELFRY_HTTP_HOSTS" envSeparator:"," allowed:"hosts such as example.com, example.com:8443 or *.example.com, separated by commas; * alone is any host" help:"Hosts that http tasks may call. Empty turns http off; its tasks are left to other workers."`
	HTTPSecret Secret   `env:"BELFRY_HTTP_SECRET" secret:"true" allowed:"any text" help:"Signs the requests of http tasks; empty: no signature."`
	ExecAllow  []string `env:"BELFRY_EXEC_ALLOW" envSeparator:"," allowed:"clean absolute paths separated by commas" help:"Programs that exec tasks may run. Empty turns exec off; its tasks are left to other workers."`
	ExecDirs   []string `env:"BELFRY_EXEC_DIRS" envSeparator:"," allowed:"clean absolute paths separated by commas" help:"Directories that exec tasks may run in, with all below them."`
	ExecEnv    []string `env:"BELFRY_EXEC_ENV" envSeparator:"," allowed:"names separated by commas" help:"Environment variables that exec tasks may set."`
}

// Process configures the process itself.
type Process struct {
	HTTPAddr  string     `env:"BELFRY_HTTP_ADDR" envDefault:"127.0.0.1:0" allowed:"host:port, or off" help:"Where /livez, /readyz and /metrics are served, to anybody who can reach it. Port 0 picks a free one, which is logged; off serves nothing."`
	LogLevel  slog.Level `env:"BELFRY_LOG_LEVEL" envDefault:"INFO" allowed:"DEBUG, INFO, WARN or ERROR" help:"The least severe messages that are logged."`
	LogFormat string     `env:"BELFRY_LOG_FORMAT" envDefault:"auto" allowed:"auto, text or json" help:"auto is text on a terminal and json elsewhere."`
}
