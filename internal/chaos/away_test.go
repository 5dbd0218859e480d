package chaos

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// The settings of workers that are killed and must soon be replaced.
var quickTakeOver = map[string]string{"BELFRY_CLAIM_TTL": "3s", "BELFRY_AUDIT_AFTER": "3s", "BELFRY_EXECUTION_LEASE": "3s", "BELFRY_KEEP_RUNS": "1000"}

// scheduledAt returns when the firing of an effect was due.
func scheduledAt(t *testing.T, firing string) time.Time {
	t.Helper()
	f, err := claim.ParseFiringID(firing)
	if err != nil {
		t.Fatal(err)
	}
	return f.ScheduledAt
}

// All workers die, a calendar closes the day, and later opens it again: what is
// due meanwhile is excluded, also where it was planned before, and whoever comes
// back hears of both changes though it lived through neither.
func TestACalendarChangesWhileNoWorkerLives(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.ServerOptions{AOF: true})
	calendar := func(dates string) {
		mustAdmin(t, f.env, "", "calendar", "put", "closed", "--date", dates)
	}
	never := "2001-01-01"
	today := time.Now().UTC().Format(time.DateOnly) + ".." + time.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly)
	calendar(never)
	mustAdmin(t, f.env, "", "calendar", "put", "open", "--date", today)
	payload := fmt.Sprintf(`{"method":"POST","url":"http://%s/"}`, f.sink.host())
	ids := []string{"all", "latest", "both"}
	for _, id := range ids {
		args := []string{"schedule", "create", id, "--every", "1s", "--type", "http", "--payload", payload, "--except", "closed"}
		switch id {
		case "all":
			args = append(args, "--missed", "all", "--catch-up", "1h")
		case "both":
			args = append(args, "--only", "open", "--missed", "all", "--catch-up", "1h")
		}
		mustAdmin(t, f.env, "", args...)
	}
	start := func() []*process {
		return []*process{f.worker(t, "one", quickTakeOver), f.worker(t, "two", quickTakeOver)}
	}
	fires := func(since time.Time) {
		t.Helper()
		for _, id := range ids {
			if !eventually(t, time.Now().Add(30*time.Second), func() bool {
				for firing := range f.sink.arrivals() {
					if strings.HasPrefix(firing, id+":") && scheduledAt(t, firing).After(since) {
						return true
					}
				}
				return false
			}) {
				t.Fatalf("%s does not fire after %s", id, since)
			}
		}
	}
	workers := start()
	fires(time.Time{})
	for _, w := range workers {
		w.signal(syscall.SIGKILL)
	}
	killed := time.Now()
	at(killed, 2*time.Second)
	calendar(today)
	closed := time.Now()
	workers = start()
	at(closed, 8*time.Second) // the claims of the dead have run out, and nothing may come of them but what was claimed
	for _, w := range workers {
		w.signal(syscall.SIGKILL)
	}
	at(closed, 9*time.Second)
	calendar(never)
	opened := time.Now()
	start()
	fires(opened.Add(time.Second))
	for firing := range f.sink.arrivals() {
		if due := scheduledAt(t, firing); due.After(killed.Add(time.Second)) && due.Before(opened) {
			t.Errorf("%s fired, though it lies between the kill at %s and the opening at %s", firing, killed, opened)
		}
	}
	for _, id := range ids {
		e, err := f.store.Get(t.Context(), schedule.ID(id))
		if err != nil {
			t.Fatal(err)
		}
		for at := killed.Truncate(time.Second).Add(2 * time.Second); at.Before(opened); at = at.Add(time.Second) {
			if r, _ := e.Status.VerdictAt(at); r.Verdict == schedule.VerdictFired {
				t.Errorf("%s at %s has the verdict fired", id, at)
			}
		}
	}
	f.noViolations(t)
}

// noViolations wants indexes, ledger and counters to agree.
func (f *fleet) noViolations(t *testing.T) {
	t.Helper()
	if violations, err := f.store.Check(t.Context()); err != nil || len(violations) > 0 {
		t.Errorf("invariants: %v %v", violations, err)
	}
}

// A fleet is backed up, its server loses everything, the backup is restored
// while nobody works, and other workers go on: every scheduled time has an
// effect, none has two but those that ran after the backup, and every token is
// larger than all before.
func TestARestoredFleetGoesOn(t *testing.T) {
	for _, name := range []string{"stopped", "beside workers", "one stands still"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beside := name != "stopped"
			f := newFleet(t, redistest.ServerOptions{})
			still := f.worker(t, "one", quickTakeOver)
			workers := []*process{still, f.worker(t, "two", quickTakeOver)}
			mustAdmin(t, f.env, f.file(30), "apply", "-f", "-")
			first := f.firstTimes(t)
			start, file := time.Now(), filepath.Join(t.TempDir(), "backup")
			at(start, 8*time.Second)
			end := func(s syscall.Signal) {
				for _, w := range workers {
					w.signal(s)
				}
				for _, w := range workers {
					w.wait(t, 40*time.Second)
				}
			}
			if !beside {
				end(syscall.SIGTERM)
			}
			taken := time.Now()
			mustAdmin(t, f.env, "", "backup", "create", file)
			if beside {
				at(taken, 4*time.Second)
				if name == "one stands still" { // and wakes up in a world that was restored meanwhile
					still.signal(syscall.SIGSTOP)
					workers = workers[1:]
				}
				end(syscall.SIGKILL)
			}
			before := f.largestToken(t, first)
			f.redis.Restart() // it keeps nothing
			mustAdmin(t, f.env, "", "backup", "restore", file, "--yes")
			restored := time.Now()
			f.worker(t, "three", quickTakeOver)
			f.worker(t, "four", quickTakeOver)
			at(restored, 5*time.Second)
			still.signal(syscall.SIGCONT)
			at(restored, 15*time.Second)
			mustAdmin(t, f.env, "", "schedule", "pause", "-l", "suite=chaos")
			if !eventually(t, time.Now().Add(fleetSettled), func() bool { return f.stats(t).Open == 0 }) {
				t.Errorf("%d firings are still open", f.stats(t).Open)
			}
			f.judgeRestored(t, first, before, taken, restored)
		})
	}
}

// largestToken returns the largest of all attempts in the run logs.
func (f *fleet) largestToken(t *testing.T, of map[schedule.ID]time.Time) (largest claim.Token) {
	t.Helper()
	for id := range of {
		runs, err := f.store.Runs(t.Context(), id, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			largest = max(largest, r.Token)
		}
	}
	if largest == 0 {
		t.Fatal("nothing ran before the restore")
	}
	return largest
}

func (f *fleet) judgeRestored(t *testing.T, first map[schedule.ID]time.Time, before claim.Token, taken, restored time.Time) {
	t.Helper()
	effects, times, repeated, after := f.sink.arrivals(), 0, 0, 0
	f.pages(t, func(e schedule.Entry) {
		id, period := e.Schedule.ID, everyOf(t, e)
		last := covered(t, e, first[id], period)
		if last.Before(restored.Add(15*time.Second - 2*period - 5*time.Second)) {
			t.Errorf("%s: the last scheduled time with a verdict is %s", id, last)
		}
		for at := first[id]; !at.After(last); at = at.Add(period) {
			times++
			firing := claim.ScheduledFiring(id, e.Status.Generation, at)
			switch seen := effects[string(firing)]; {
			case len(seen) == 0:
				t.Errorf("%s has no effect", firing)
			case len(seen) > 1 && seen[0].Before(taken.Add(-time.Second)):
				t.Errorf("%s: effects at %v; the backup was taken at %s", firing, seen, taken)
			case len(seen) > 1:
				repeated++
			}
		}
		runs, err := f.store.Runs(t.Context(), id, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			if r.Started.After(restored) {
				after++
				if r.Token <= before {
					t.Errorf("%s has token %d, and %d was given before", r.Firing, r.Token, before)
				}
			}
		}
	})
	if times == 0 || after == 0 {
		t.Fatalf("%d scheduled times, %d runs after the restore", times, after)
	}
	t.Logf("%d scheduled times, %d runs after the restore; %d ran again, all after the backup", times, after, repeated)
	f.noViolations(t)
}

// Two namespaces on one Redis consume one queue: each firing is run by its own
// fleet, and none is lost.
func TestTwoNamespacesMayShareAQueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.ServerOptions{})
	f.worker(t, "one", quickTakeOver)
	other := maps.Clone(quickTakeOver)
	other["BELFRY_NAMESPACE"] = redistest.Namespace()
	strangers := f.worker(t, "other", other)
	mustAdmin(t, f.env, f.file(10), "apply", "-f", "-")
	first := f.firstTimes(t)
	start := time.Now()
	at(start, 12*time.Second)
	mustAdmin(t, f.env, "", "schedule", "pause", "-l", "suite=chaos")
	if !eventually(t, time.Now().Add(fleetSettled), func() bool { return f.stats(t).Open == 0 }) {
		t.Errorf("%d firings are still open", f.stats(t).Open)
	}
	j := f.judge(t, first, 12*time.Second)
	if j.redriven > 0 || len(j.repeated) > 0 {
		t.Errorf("%d were enqueued again, %d ran again", j.redriven, len(j.repeated))
	}
	if n := strings.Count(strangers.text(), "another namespace"); n != 1 {
		t.Errorf("the other fleet's worker told %d times of the tasks that it got:\n%s", n, strangers.tail(20))
	}
}
