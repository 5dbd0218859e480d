package admincli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/term"

	"github.com/belfryhq/belfry/internal/memstore"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// epoch is when every test starts: a Monday, shortly before nine in Berlin.
var epoch = time.Date(2026, 11, 30, 6, 7, 2, 0, time.UTC)

// A rig runs command lines in process against a store in memory.
type rig struct {
	t        *testing.T
	mu       sync.Mutex
	now      time.Time
	ahead    time.Duration // of the caller's clock
	stores   *Stores
	openErr  error
	opened   int
	terminal Terminal
	stdin    string
	input    io.Reader // instead of stdin
	environ  map[string]string
	config   string                                         // directory of the contexts
	open     func(context.Context, Target) (*Stores, error) // nil: stores and openErr
	printed  func(command string, value any)
	tty      *os.File // all streams, when it is set
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, now: epoch, config: t.TempDir(), environ: map[string]string{"BELFRY_REDIS_URL": "redis://test:6379"}}
	store, err := memstore.New(memstore.Options{Now: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	r.stores = &Stores{Catalog: store, Roster: store, Runs: store, Calendars: store, Address: "test:6379", Namespace: "copy",
		Leases: store.Leases(), Periodic: store.Periodic(),
		Events: store, Skipper: store, Backfills: store, Firings: store, Cancels: store}
	seedLeases(t, store)
	r.stores.Archive = &cannedArchive{t: t, now: r.clock}
	r.stores.Server, r.stores.Tasks = scene{r}, newCannedTasks(r)
	r.announce("default", "reports", "low", "ops", "mailers")
	return r
}

// announce lets one worker serve queues.
func (r *rig) announce(queues ...string) {
	r.t.Helper()
	r.announceAs("w1", "", queues...)
}

func (r *rig) announceAs(id string, state claim.MemberState, queues ...string) {
	r.t.Helper()
	weights := map[string]int{}
	for _, q := range queues {
		weights[q] = 1
	}
	_, err := r.stores.Roster.Announce(context.Background(), claim.Member{ID: id, State: state, Queues: weights, Claims: true, TimeZone: "cafe0123",
		Types: []string{"report:build", "cache:warm", "mail:launch", "log"}, Started: r.now, Seen: r.now})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// A result is what one command line did.
type result struct {
	stdout, stderr string
	code           int
}

func (r *rig) run(args ...string) result {
	return r.runContext(context.Background(), args...)
}

func (r *rig) runContext(ctx context.Context, args ...string) result {
	var stdout, stderr bytes.Buffer
	input := r.input
	if input == nil {
		input = strings.NewReader(r.stdin)
	}
	env := Env{Stdin: input, Stdout: &stdout, Stderr: &stderr, Terminal: r.terminal, Now: func() time.Time { return r.clock().Add(r.ahead) },
		Local: time.FixedZone("LOC", 2*3600), User: "ana", Environ: r.environ, Version: "v0.0.0-test", ConfigDir: r.config,
		TimeZoneData: func() string { return "cafe0123" }, printed: r.printed,
		Open: func(ctx context.Context, target Target) (*Stores, error) {
			r.opened++
			if r.open != nil {
				return r.open(ctx, target)
			}
			return r.stores, r.openErr
		}}
	if r.tty != nil {
		env.Stdin, env.Stdout, env.Stderr = r.tty, r.tty, r.tty
		env.Terminal = Terminal{Stdin: true, Stdout: true, Stderr: true, Size: func() (columns, rows int) {
			columns, rows, err := term.GetSize(int(r.tty.Fd()))
			if err != nil {
				r.t.Error(err)
			}
			return columns, rows
		}}
	}
	code := Run(ctx, env, args)
	return result{stdout.String(), stderr.String(), code}
}

// must fails the test when a command does not end with 0.
func (r *rig) must(args ...string) result {
	r.t.Helper()
	got := r.run(args...)
	if got.code != exitDone {
		r.t.Fatalf("admin %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.stdout, got.stderr)
	}
	return got
}

// snapshot is everything that is stored, to show that nothing changed.
func (r *rig) snapshot() string {
	r.t.Helper()
	page, err := r.stores.Catalog.List(context.Background(), schedule.ListOptions{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := marshal(page.Entries)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// words splits a command line as a shell does, without expansions.
func splitLine(line string) ([]string, error) {
	var args []string
	var current strings.Builder
	var quote rune
	started := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			current.WriteRune(c)
		case c == '\'' || c == '"':
			quote, started = c, true
		case c == ' ':
			if started {
				args = append(args, current.String())
				current.Reset()
				started = false
			}
		default:
			started = true
			current.WriteRune(c)
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if started {
		args = append(args, current.String())
	}
	return args, nil
}
