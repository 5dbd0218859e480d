package chaos

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
)

// effective is how long a command may take to show, from its return.
const effective = time.Second

// attempts is how often a command is tried on a machine that was too busy.
const attempts = 3

// A step runs a command and says whether it showed within the time given.
type step func(name string) error

// within tries a step with fresh schedules until it is met in time; a machine
// that is busy for a moment must not fail the test.
func within(t *testing.T, what string, do step) {
	t.Helper()
	var err error
	for i := range attempts {
		if err = do(fmt.Sprintf("%s-%d", what, i)); err == nil {
			return
		}
		t.Logf("%s, attempt %d: %v", what, i+1, err)
	}
	t.Errorf("%s: %v", what, err)
}

func TestCommandsFromAFourthProcessTakeEffectWithinASecond(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.ServerOptions{})
	workers := []*process{f.worker(t, "one", nil), f.worker(t, "two", nil), f.worker(t, "three", nil)}
	payload := `{"method":"POST","url":"http://` + f.sink.host() + `/"}`
	create := func(name, every string) {
		mustAdmin(t, f.env, "", "schedule", "create", name, "--every", every, "--type", "http", "--payload", payload)
	}
	arrives := func(name string, more int, bound time.Duration) error {
		want := f.sink.count(name) + more
		if eventually(t, time.Now().Add(bound), func() bool { return f.sink.count(name) >= want }) {
			return nil
		}
		return fmt.Errorf("%d effects of %s after %s, want %d", f.sink.count(name), name, bound, want)
	}
	create("warm-up", "1s")
	if err := arrives("warm-up", 1, 30*time.Second); err != nil {
		t.Fatal(err)
	}

	within(t, "create", func(name string) error {
		create(name, "500ms")
		return arrives(name, 1, 500*time.Millisecond+effective)
	})
	within(t, "trigger", func(name string) error {
		create(name, "24h")
		mustAdmin(t, f.env, "", "schedule", "trigger", name)
		return arrives(name, 1, effective)
	})
	within(t, "pause", func(name string) error {
		create(name, "200ms")
		if err := arrives(name, 1, 30*time.Second); err != nil {
			return err
		}
		mustAdmin(t, f.env, "", "schedule", "pause", name)
		return f.quietAfter(t, name)
	})
	within(t, "resume", func(name string) error {
		create(name, "500ms")
		mustAdmin(t, f.env, "", "schedule", "pause", name)
		if err := f.quietAfter(t, name); err != nil {
			return err
		}
		mustAdmin(t, f.env, "", "schedule", "resume", name)
		return arrives(name, 1, 500*time.Millisecond+effective)
	})
	within(t, "delete", func(name string) error {
		create(name, "200ms")
		if err := arrives(name, 1, 30*time.Second); err != nil {
			return err
		}
		mustAdmin(t, f.env, "", "schedule", "delete", name, "--yes")
		if r := admin(t, f.env, "", "schedule", "get", name); r.code != 5 {
			return fmt.Errorf("get of a deleted schedule: exit %d, want 5: %s", r.code, r.stderr)
		}
		return f.quietAfter(t, name)
	})

	for _, w := range workers {
		w.signal(syscall.SIGTERM)
		if code := w.wait(t, 30*time.Second); code != 0 {
			t.Errorf("%s ended with %d", w.name, code)
		}
		if strings.Contains(w.text(), "goroutine ") {
			t.Errorf("%s printed a stack trace:\n%s", w.name, w.tail(40))
		}
	}
}

// quietAfter reports an error when effects still arrive later than a second
// from now.
func (f *fleet) quietAfter(t *testing.T, name string) error {
	t.Helper()
	at(time.Now(), effective)
	before := f.sink.count(name)
	at(time.Now(), effective)
	if after := f.sink.count(name); after != before {
		return fmt.Errorf("%d more effects of %s", after-before, name)
	}
	return nil
}
