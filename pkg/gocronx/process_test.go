package gocronx_test

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/proctest"
	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/gocronx"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

func TestMain(m *testing.M) {
	os.Exit(proctest.Run(map[string]proctest.Role{"scheduler": playScheduler, "locker": playLocker}, func() int { return proctest.NoLeak(func() int { return redistest.Run(m) }) }))
}

const processTTL = time.Second

// fence is a sink that refuses tokens smaller than the largest it has seen.
var fence = redis.NewScript(`
local token, last = tonumber(ARGV[1]), tonumber(redis.call("GET", KEYS[1]) or "0")
if token < last then return 0 end
redis.call("SET", KEYS[1], ARGV[1])
return 1`)

// playScheduler is a process with a gocron scheduler of one job, elected by
// our Elector. The job starts every 50 ms and runs for a while, once at a time.
func playScheduler(ctx context.Context, say proctest.Say) error {
	namespace := os.Getenv("BELFRY_TEST_NAMESPACE")
	body, err := time.ParseDuration(os.Getenv("BELFRY_TEST_BODY"))
	if err != nil {
		return err
	}
	client := redis.NewClient(redistest.Options(os.Getenv("BELFRY_TEST_ADDR")))
	defer client.Close()
	store, err := redisstore.New(client, redisstore.Options{Namespace: namespace})
	if err != nil {
		return err
	}
	elector, err := gocronx.NewElector(gocronx.ElectorOptions{Leases: store.Leases(), Name: "jobs", TTL: processTTL,
		Retry: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		return err
	}
	_, err = scheduler.NewJob(gocron.DurationJob(50*time.Millisecond), gocron.NewTask(func() {
		work(elector, client, namespace+"-sink", body, say)
	}), gocron.WithSingletonMode(gocron.LimitModeReschedule))
	if err != nil {
		return err
	}
	scheduler.Start()
	say(time.Now(), "ready")
	leading := make(chan error, 1)
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { leading <- elector.Run(electing) }()
	<-ctx.Done()
	err = scheduler.Shutdown() // the job first, then the leadership
	stop()
	if failed := <-leading; failed != nil {
		return failed
	}
	return err
}

// work is the job: it writes to the sink under the token that it began with.
func work(elector *gocronx.Elector, client *redis.Client, sink string, body time.Duration, say proctest.Say) {
	token := elector.Token()
	say(time.Now(), "start %d", token)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(body); ; <-tick.C {
		now := time.Now()
		if elector.Token() == token && token != 0 {
			say(now, "leads %d", token)
		}
		written, err := fence.Run(context.Background(), client, []string{sink}, int64(token)).Int()
		switch {
		case err != nil:
			return // the process ends
		case written == 0:
			say(time.Now(), "refused %d", token)
			return
		case !time.Now().Before(end):
			say(time.Now(), "end %d", token)
			return
		}
	}
}

// playLocker is a process with a gocron scheduler of one job, locked by our
// Locker, whose times come from our Cron: every second.
func playLocker(ctx context.Context, say proctest.Say) error {
	client := redis.NewClient(redistest.Options(os.Getenv("BELFRY_TEST_ADDR")))
	defer client.Close()
	store, err := redisstore.New(client, redisstore.Options{Namespace: os.Getenv("BELFRY_TEST_NAMESPACE")})
	if err != nil {
		return err
	}
	locker, err := gocronx.NewLocker(gocronx.LockerOptions{Leases: store.Leases()})
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	_, err = scheduler.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(func() {
		say(time.Now(), "run %d", locker.Token("tick"))
	}), gocron.WithName("tick"), gocron.WithCronImplementation(gocronx.NewCron(gocronx.CronOptions{})))
	if err != nil {
		return err
	}
	scheduler.Start()
	say(time.Now(), "ready")
	<-ctx.Done()
	return scheduler.Shutdown()
}

func TestOfThreeLockersOneRunsEachTime(t *testing.T) {
	t.Parallel()
	processes := proctest.Compete(t, "locker", 3, 0)
	begin := time.Now().Truncate(time.Second).Add(time.Second)
	const seconds = 5
	<-time.After(time.Until(begin.Add(seconds*time.Second - 200*time.Millisecond)))
	runs, tokens := map[int]int{}, map[string]bool{}
	for _, p := range processes {
		for _, line := range p.Lines("run ") {
			if second := int(line.At.Sub(begin) / time.Second); !line.At.Before(begin) && second < seconds {
				runs[second]++
				tokens[line.Text] = true
			}
		}
	}
	for _, p := range processes {
		p.Stop(5 * time.Second)
	}
	for second := range seconds {
		if runs[second] != 1 {
			t.Errorf("second %d: %d runs, want one: %v", second, runs[second], runs)
		}
	}
	if len(tokens) != seconds || tokens["run 0"] {
		t.Errorf("tokens %v, want one for each run", tokens)
	}
}

// schedulers starts two processes that compete for one election.
func schedulers(t *testing.T, body time.Duration) []*proctest.Process {
	t.Helper()
	return proctest.Compete(t, "scheduler", 2, body)
}

// elected waits for the leader, and returns it with the other.
func elected(t *testing.T, processes []*proctest.Process) (leader, other *proctest.Process, start proctest.Line) {
	t.Helper()
	leader, start = proctest.AwaitAny(t, 10*time.Second, "start", nil, processes...)
	other = processes[0]
	if leader == other {
		other = processes[1]
	}
	return leader, other, start
}

// neverTogether fails when two leaders trusted their token at the same time.
func neverTogether(t *testing.T, processes []*proctest.Process) {
	t.Helper()
	type span struct{ first, last time.Time }
	spans := map[claim.Token]span{}
	for _, p := range processes {
		for _, line := range p.Lines("leads ") {
			n, err := strconv.ParseInt(strings.TrimPrefix(line.Text, "leads "), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			s, ok := spans[claim.Token(n)]
			if !ok || line.At.Before(s.first) {
				s.first = line.At
			}
			if line.At.After(s.last) {
				s.last = line.At
			}
			spans[claim.Token(n)] = s
		}
	}
	if len(spans) < 2 {
		t.Errorf("%d tokens led, want at least two to compare", len(spans))
	}
	for a, one := range spans {
		for b, two := range spans {
			if a < b && !one.last.Before(two.first) {
				t.Errorf("token %d led until %s, token %d from %s on", a, one.last.Format(time.StampMicro), b, two.first.Format(time.StampMicro))
			}
		}
	}
}

func TestOfTwoSchedulersOneRuns(t *testing.T) {
	t.Parallel()
	processes := schedulers(t, 0)
	leader, other, _ := elected(t, processes)
	<-time.After(3 * processTTL)
	if n := len(leader.Lines("end")); n < 20 {
		t.Errorf("the leader ran %d times in three TTLs, want about 60", n)
	}
	if n := len(other.Lines("start")); n != 0 {
		t.Errorf("the other ran %d times", n)
	}
}

func TestAJobOfTenTTLRunsOnce(t *testing.T) {
	t.Parallel()
	processes := schedulers(t, 10*processTTL)
	leader, other, start := elected(t, processes)
	end := leader.Await(20*time.Second, "end")
	if strings.TrimPrefix(end.Text, "end ") != strings.TrimPrefix(start.Text, "start ") {
		t.Errorf("it began as %q and ended as %q", start.Text, end.Text)
	}
	for _, line := range leader.Lines("start")[1:] {
		if line.At.Before(end.At) {
			t.Errorf("it started again at %s, before the end", line.At)
		}
	}
	if n := len(other.Lines("start")); n != 0 {
		t.Errorf("the other ran %d times", n)
	}
}

func TestTheLeaderStopsTheOtherLeadsWithinTheTTL(t *testing.T) {
	t.Parallel()
	processes := schedulers(t, 0)
	leader, other, _ := elected(t, processes)
	stopped := time.Now()
	leader.Stop(10 * time.Second)
	if took := other.Await(10*time.Second, "start").At.Sub(stopped); took > processTTL {
		t.Errorf("the other ran %s after the stop, want within the TTL", took)
	}
	other.Await(5*time.Second, "leads")
	neverTogether(t, processes)
}

func TestTheLeaderIsKilledTheOtherLeadsWithinTheTTLAndASecond(t *testing.T) {
	t.Parallel()
	processes := schedulers(t, 0)
	leader, other, _ := elected(t, processes)
	<-time.After(processTTL)
	killed := time.Now()
	leader.Kill()
	if took := other.Await(10*time.Second, "start").At.Sub(killed); took > processTTL+time.Second {
		t.Errorf("the other ran %s after the kill, want within the TTL and a second", took)
	}
	other.Await(5*time.Second, "leads")
	neverTogether(t, processes)
}

func TestALeaderThatStoodStillIsFenced(t *testing.T) {
	t.Parallel()
	processes := schedulers(t, time.Minute)
	leader, other, first := elected(t, processes)
	<-time.After(processTTL / 2)
	leader.Freeze()
	frozen := time.Now()
	if took := other.Await(10*time.Second, "start").At.Sub(frozen); took > processTTL+time.Second {
		t.Errorf("the other ran %s after the stop, want within the TTL and a second", took)
	}
	<-time.After(3*processTTL - time.Since(frozen))
	leader.Thaw()
	refused := leader.Await(10*time.Second, "refused")
	if want := strings.Replace(first.Text, "start", "refused", 1); refused.Text != want {
		t.Errorf("it said %q, want %q", refused.Text, want)
	}
	<-time.After(processTTL)
	if n := len(leader.Lines("start")); n != 1 {
		t.Errorf("it ran %d times while the other leads", n)
	}
	neverTogether(t, processes)
}
