package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// A canned source remembers what was done.
type canned struct {
	mu    sync.Mutex
	reads int
	acts  []string
	done  chan struct{}
}

func (c *canned) Read(context.Context) (Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads++; c.reads == 1 {
		return Snapshot{}, errors.New("not yet")
	}
	return sample(), nil
}

func (c *canned) Act(_ context.Context, act Act, schedule string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acts = append(c.acts, string(act)+" "+schedule)
	close(c.done)
	return "done", nil
}

// A screen tells when a text was drawn on it.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
	want string
	seen chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	if s.want != "" && strings.Contains(s.text.String(), s.want) {
		s.want = ""
		close(s.seen)
	}
	return len(p), nil
}

// The program draws what the source says, passes keys on, and quits.
func TestTheProgramDrawsActsAndQuits(t *testing.T) {
	in, keys := io.Pipe()
	out := &screen{want: "partner-sync", seen: make(chan struct{})}
	source := &canned{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	m := New(Options{Width: columns})
	go func() {
		ended <- Show(ctx, m, source, 10*time.Millisecond, Terminal{In: in, Out: out, Environ: []string{"TERM=xterm"}, Width: 80, Height: 24})
	}()
	wait := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-ctx.Done():
			t.Fatalf("%s: %q", what, out.text.String())
		}
	}
	wait("nothing was drawn", out.seen)
	if _, err := io.WriteString(keys, "p"); err != nil {
		t.Fatal(err)
	}
	wait("nothing was done", source.done)
	if _, err := io.WriteString(keys, "q"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Show = %v", err)
		}
	case <-ctx.Done():
		t.Fatal("q does not quit")
	}
	if len(source.acts) != 1 || source.acts[0] != "pause partner-sync" {
		t.Errorf("acts: %v", source.acts)
	}
}

// The end of the context ends the program.
func TestTheProgramEndsWithItsContext(t *testing.T) {
	in, _ := io.Pipe()
	out := &screen{want: "belfry top", seen: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Show(ctx, New(Options{Width: columns}), &canned{}, time.Hour, Terminal{In: in, Out: out, Environ: []string{"TERM=xterm"}, Width: 80, Height: 24})
	}()
	limit := time.After(30 * time.Second)
	select {
	case <-out.seen:
	case <-limit:
		t.Fatal("nothing was drawn")
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Show = %v", err)
		}
	case <-limit:
		t.Fatal("it does not end")
	}
}
