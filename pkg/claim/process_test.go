package claim_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/proctest"
	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

func TestMain(m *testing.M) {
	os.Exit(proctest.Run(map[string]proctest.Role{"periodic": playPeriodic, "group": playGroup},
		func() int { return proctest.NoLeak(func() int { return redistest.Run(m) }) }))
}

// processTTL is that of claims and leases in the processes.
const processTTL = 2 * time.Second

// A player is what the roles share.
type player struct {
	client *redis.Client
	store  *redisstore.Store
	sink   string
	body   time.Duration
	say    proctest.Say
	logger *slog.Logger
}

func newPlayer(say proctest.Say) (*player, error) {
	client := redis.NewClient(redistest.Options(os.Getenv("BELFRY_TEST_ADDR")))
	store, err := redisstore.New(client, redisstore.Options{Namespace: os.Getenv("BELFRY_TEST_NAMESPACE")})
	if err != nil {
		return nil, err
	}
	body, err := time.ParseDuration(os.Getenv("BELFRY_TEST_BODY"))
	return &player{client: client, store: store, sink: os.Getenv("BELFRY_TEST_NAMESPACE") + "-sink", body: body, say: say,
		logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}, err
}

// fence is a sink that refuses tokens smaller than the largest it has seen.
var fence = redis.NewScript(`
local token, last = tonumber(ARGV[1]), tonumber(redis.call("GET", KEYS[1]) or "0")
if token < last then return 0 end
redis.call("SET", KEYS[1], ARGV[1])
return 1`)

// work does the body: it writes to the sink again and again, and says which
// writes were refused and when it trusted its right to write.
func (p *player) work(ctx context.Context, right func() claim.Lease) error {
	token := right().Token
	p.say(time.Now(), "start %d", token)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(p.body); time.Now().Before(end); <-tick.C {
		now := time.Now()
		if right().Valid(now) {
			p.say(now, "trusts %d", token)
		}
		written, err := fence.Run(context.WithoutCancel(ctx), p.client, []string{p.sink}, int64(token)).Int()
		if err != nil {
			return fmt.Errorf("write to the sink: %w", err)
		}
		if written == 0 {
			p.say(time.Now(), "refused %d", token)
			return context.Cause(ctx)
		}
	}
	p.say(time.Now(), "end %d", token)
	return nil
}

func playPeriodic(ctx context.Context, say proctest.Say) error {
	p, err := newPlayer(say)
	if err != nil {
		return err
	}
	defer p.client.Close()
	runner, err := claim.NewPeriodicRunner(claim.PeriodicOptions{Store: p.store.Periodic(), Logger: p.logger, Tasks: []claim.Periodic{{
		Name: "task", Every: every(time.Hour), TTL: processTTL, IgnoreLoss: true,
		Run: func(ctx context.Context, held func() claim.PeriodicClaim) error {
			return p.work(ctx, func() claim.Lease { return held().Lease })
		}}}})
	if err != nil {
		return err
	}
	say(time.Now(), "ready")
	return runner.Run(ctx)
}

func playGroup(ctx context.Context, say proctest.Say) error {
	p, err := newPlayer(say)
	if err != nil {
		return err
	}
	defer p.client.Close()
	supervisor, err := claim.NewSupervisor(claim.SupervisorOptions{Name: "main", Leases: p.store.Leases(), TTL: processTTL,
		Retry: 200 * time.Millisecond, Logger: p.logger, Build: func(group *claim.Group) error {
			group.Worker("singleton", func(ctx context.Context) error {
				_ = p.work(ctx, group.Lease) // said already
				<-ctx.Done()
				say(time.Now(), "told %v", context.Cause(ctx))
				return nil
			})
			return nil
		}})
	if err != nil {
		return err
	}
	say(time.Now(), "ready")
	return supervisor.Run(ctx)
}

// others are the processes without one.
func others(processes []*proctest.Process, without *proctest.Process) []*proctest.Process {
	var rest []*proctest.Process
	for _, p := range processes {
		if p != without {
			rest = append(rest, p)
		}
	}
	return rest
}

// span is the time in which a token was trusted.
type span struct{ first, last time.Time }

// trusted collects the spans of all tokens.
func trusted(t *testing.T, processes []*proctest.Process) map[int64]span {
	t.Helper()
	spans := map[int64]span{}
	for _, p := range processes {
		for _, line := range p.Lines("trusts ") {
			token, err := strconv.ParseInt(strings.TrimPrefix(line.Text, "trusts "), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			s, ok := spans[token]
			if !ok || line.At.Before(s.first) {
				s.first = line.At
			}
			if line.At.After(s.last) {
				s.last = line.At
			}
			spans[token] = s
		}
	}
	return spans
}

// neverTogether fails when two tokens were trusted at the same time.
func neverTogether(t *testing.T, processes []*proctest.Process) {
	t.Helper()
	spans := trusted(t, processes)
	if len(spans) < 2 {
		t.Errorf("%d tokens were trusted, want at least two to compare", len(spans))
	}
	for a, one := range spans {
		for b, two := range spans {
			if a < b && !one.last.Before(two.first) {
				t.Errorf("token %d was trusted until %s, token %d from %s on", a, one.last.Format(time.StampMicro), b, two.first.Format(time.StampMicro))
			}
		}
	}
}

func TestProcessesRunABodyOfTenTTLOnce(t *testing.T) {
	t.Parallel()
	processes := proctest.Compete(t, "periodic", 3, 10*processTTL)
	holder, start := proctest.AwaitAny(t, 10*time.Second, "start", nil, processes...)
	holder.Await(20*processTTL, "end")
	for _, p := range processes {
		p.Stop(10 * time.Second)
	}
	starts := 0
	for _, p := range processes {
		starts += len(p.Lines("start"))
	}
	if starts != 1 {
		t.Errorf("the body started %d times, want once, at %s", starts, start.At)
	}
	if refused := holder.Lines("refused"); len(refused) != 0 {
		t.Errorf("the sink refused %v", refused)
	}
	for token, s := range trusted(t, processes) {
		if s.last.Sub(s.first) < 9*processTTL {
			t.Errorf("token %d was trusted for %s only", token, s.last.Sub(s.first))
		}
	}
}

func TestAProcessTakesOverFromOneThatWasKilled(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"periodic", "group"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			processes := proctest.Compete(t, role, 3, time.Minute)
			holder, _ := proctest.AwaitAny(t, 10*time.Second, "start", nil, processes...)
			<-time.After(processTTL) // it is renewed by now
			killed := time.Now()
			holder.Kill()
			heir, next := proctest.AwaitAny(t, 10*time.Second, "start", nil, others(processes, holder)...)
			heir.Await(5*time.Second, "trusts")
			if took := next.At.Sub(killed); took > processTTL+time.Second {
				t.Errorf("the next run started %s after the kill, want at most the TTL and a second", took)
			}
			neverTogether(t, processes)
		})
	}
}

func TestAProcessThatStoodStillIsFenced(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"periodic", "group"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			processes := proctest.Compete(t, role, 3, time.Minute)
			holder, first := proctest.AwaitAny(t, 10*time.Second, "start", nil, processes...)
			<-time.After(processTTL / 2)
			holder.Freeze()
			frozen := time.Now()
			next, second := proctest.AwaitAny(t, 10*time.Second, "start", nil, others(processes, holder)...)
			if took := second.At.Sub(frozen); took > processTTL+time.Second {
				t.Errorf("the next run started %s after the stop, want at most the TTL and a second", took)
			}
			<-time.After(3*processTTL - time.Since(frozen))
			holder.Thaw()
			refused := holder.Await(10*time.Second, "refused")
			if want := strings.Replace(first.Text, "start", "refused", 1); refused.Text != want {
				t.Errorf("it said %q, want %q", refused.Text, want)
			}
			if role == "group" {
				holder.Await(10*time.Second, "told claim: ")
			}
			<-time.After(processTTL)
			if n := len(holder.Lines("start")); n != 1 {
				t.Errorf("it started %d times while %s held", n, second.Text)
			}
			if n := len(next.Lines("refused")); n != 0 {
				t.Error("the sink refused the successor")
			}
			neverTogether(t, processes)
		})
	}
}

func TestAProcessThatIsStoppedReleasesItsLeaseAtOnce(t *testing.T) {
	t.Parallel()
	processes := proctest.Compete(t, "group", 2, 100*time.Millisecond)
	holder, _ := proctest.AwaitAny(t, 10*time.Second, "end", nil, processes...)
	stopped := time.Now()
	holder.Stop(5 * time.Second)
	_, next := proctest.AwaitAny(t, 10*time.Second, "start", nil, others(processes, holder)...)
	if took := next.At.Sub(stopped); took > processTTL {
		t.Errorf("the other took over after %s, want well within the TTL", took)
	}
}
