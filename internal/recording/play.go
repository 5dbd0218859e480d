package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// The size of the screen.
const (
	columns = 124
	rows    = 26
)

// A step is typed; keys are single keys that are sent afterwards, one at a time.
type step struct {
	line string
	keys []string
	stay time.Duration // how long to look at the result
}

// session is what is recorded.
var session = []step{
	{line: "admin schedule list", stay: 4 * time.Second},
	{line: "admin schedule preview --cron '30 2 * * *' --tz America/New_York --from 2027-03-12 -n 4 --dst", stay: 5 * time.Second},
	{line: "admin schedule create invoices --every 2s --type log --label team=billing --overlap skip", stay: 4 * time.Second},
	{line: "admin schedule why invoices", stay: 4 * time.Second},
	{line: "admin schedule trigger invoices --request-id deploy-42", stay: 3 * time.Second},
	{line: "admin schedule history invoices -n 4", stay: 4 * time.Second},
	{line: "admin schedule pause flaky --reason 'database move' --for 2h", stay: 3 * time.Second},
	{line: "admin top", keys: []string{"", "s", "4", "1", "q"}, stay: 3 * time.Second},
	{line: "admin check scheduler", stay: 3 * time.Second},
}

// A frame is what the screen showed from a moment on.
type frame struct {
	at    time.Duration
	lines []string // with colors
	scene bool     // the last look at the result of a step
}

// A screen is a tmux session on a server of its own.
type screen struct {
	ctx    context.Context
	socket string
	began  time.Time
	frames []frame
}

func (s *screen) tmux(args ...string) (string, error) {
	cmd := exec.CommandContext(s.ctx, "tmux", append([]string{"-L", s.socket, "-f", "/dev/null"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w", args[0], err)
	}
	return string(out), nil
}

// play runs the session and returns what the screen showed.
func play(ctx context.Context, bin, url string) ([]frame, error) {
	s := &screen{ctx: ctx, socket: fmt.Sprintf("belfry-recording-%d", time.Now().UnixNano())}
	shell := []string{"env", "-i", "PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=/", "USER=ana", "LANG=C.UTF-8", "TERM=screen-256color", "TZ=UTC",
		"PS1=$ ", "BELFRY_REDIS_URL=" + url, "bash", "--noprofile", "--norc"}
	if _, err := s.tmux(append([]string{"-u", "new-session", "-d", "-s", "main", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), "--"}, shell...)...); err != nil {
		return nil, err
	}
	defer func() { _, _ = s.tmux("kill-server") }() // of this socket only
	if _, err := s.tmux("set-option", "-g", "status", "off"); err != nil {
		return nil, err
	}
	if _, err := s.tmux("resize-window", "-t", "main", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows)); err != nil {
		return nil, err
	}
	s.began = time.Now()
	for _, one := range session {
		if err := s.perform(one); err != nil {
			return nil, err
		}
	}
	return s.frames, nil
}

// perform types a line on a clear screen, and looks at what comes.
func (s *screen) perform(one step) error {
	if _, err := s.tmux("send-keys", "-t", "main", "C-l"); err != nil {
		return err
	}
	if err := s.look(500 * time.Millisecond); err != nil {
		return err
	}
	for _, part := range strings.SplitAfter(one.line, " ") {
		if _, err := s.tmux("send-keys", "-t", "main", "-l", "--", part); err != nil {
			return err
		}
		if err := s.look(150 * time.Millisecond); err != nil {
			return err
		}
	}
	if _, err := s.tmux("send-keys", "-t", "main", "Enter"); err != nil {
		return err
	}
	scene := -1
	for _, key := range one.keys {
		if key != "" {
			scene = len(s.frames) - 1 // before the next key
			if _, err := s.tmux("send-keys", "-t", "main", key); err != nil {
				return err
			}
		}
		if err := s.look(one.stay); err != nil {
			return err
		}
	}
	if len(one.keys) == 0 {
		if err := s.look(one.stay); err != nil {
			return err
		}
		scene = len(s.frames) - 1
	}
	s.frames[scene].scene = true
	return nil
}

// look keeps each change of the screen for a while.
func (s *screen) look(d time.Duration) error {
	for end := time.Now().Add(d); ; {
		text, err := s.tmux("capture-pane", "-e", "-p", "-t", "main")
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimRight(workerID.ReplaceAllStringFunc(text, anonymous), "\n"), "\n")
		if n := len(s.frames); n == 0 || strings.Join(s.frames[n-1].lines, "\n") != strings.Join(lines, "\n") {
			s.frames = append(s.frames, frame{at: time.Since(s.began), lines: lines})
		}
		if !time.Now().Before(end) {
			return nil
		}
		if err := pause(s.ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// workerID matches the name of a worker, which has the host's in it.
var workerID = regexp.MustCompile(`\b[A-Za-z0-9-]+\.[0-9]+\.[a-z0-9]{6}\b`)

// anonymous hides the host in a name of a worker, as wide as it was.
func anonymous(id string) string {
	const name = "demo-worker"
	return name + strings.Repeat(" ", max(0, len(id)-len(name)))
}

// scenes are the frames that a still picture shows.
func scenes(frames []frame) []frame {
	var out []frame
	for _, f := range frames {
		if f.scene {
			out = append(out, f)
		}
	}
	return out
}
