package admincli

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// minWatch is the shortest time between two rounds of a watch: each one asks
// the store.
const minWatch = 100 * time.Millisecond

// watchFlags repeat a list.
type watchFlags struct {
	on       bool
	interval string
}

func (f *watchFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.on, "watch", "w", false, "repeat until interrupted; jsonl and name then print what is new or changed")
	cmd.Flags().StringVar(&f.interval, "interval", "2s", "with --watch: time between two looks")
}

// watched lets a command that lists something repeat it.
func (s *session) watched(cmd *cobra.Command) *cobra.Command {
	f, once := &watchFlags{}, cmd.RunE
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.watch(f, func() error { return once(cmd, args) })
	}
	return cmd
}

// every checks the flags.
func (f *watchFlags) every(format string) (time.Duration, error) {
	period, err := flagDuration("interval", f.interval)
	if err != nil {
		return 0, err
	}
	if period < minWatch {
		return 0, &schedule.FieldError{Field: "interval", Value: f.interval, Allowed: "at least " + schedule.FormatDuration(minWatch)}
	}
	if format == formatJSON || format == formatYAML {
		return 0, &schedule.FieldError{Field: "output", Value: format, Allowed: "table, wide, jsonl or name with --watch, since a document has an end"}
	}
	return period, nil
}

// watch shows once, or again and again until the context ends. The first
// failure ends it when nothing was shown yet; a later one is told, and the
// watch goes on.
func (s *session) watch(f *watchFlags, show func() error) error {
	if !f.on {
		return show()
	}
	period, err := f.every(s.flags.format)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	w := &watching{s: s}
	for shown := false; ; {
		err := w.round(show)
		switch {
		case s.ctx.Err() != nil:
			return errInterrupted
		case s.out.err != nil:
			return nil // Run reports it
		case err != nil && !shown:
			return err
		case err != nil:
			s.warn("%s", describe(err, s.address))
		default:
			shown = true
		}
		select {
		case <-s.ctx.Done():
			return errInterrupted
		case <-ticker.C:
		}
	}
}

// A watching is what one watch remembers between its rounds.
type watching struct {
	s      *session
	before map[string]bool // lines of the last round, of formats that print changes
	rounds int
}

// round shows once into memory and then writes what is due.
func (w *watching) round(show func() error) error {
	s := w.s
	data, notes := &bytes.Buffer{}, &bytes.Buffer{}
	out, errs := s.out, s.err
	s.out, s.err = &stickyWriter{w: data, columns: s.columns()}, notes
	s.calendars = nil // they may have changed
	err := show()
	s.out, s.err = out, errs
	if err != nil {
		return err
	}
	switch {
	case !s.tabular():
		w.changes(data.String())
	case s.env.Terminal.Stdout:
		columns, rows := 0, 0
		if s.env.Terminal.Size != nil {
			columns, rows = s.env.Terminal.Size()
		}
		_, err = s.out.Write(frame(data.String()+notes.String(), columns, rows))
		return err
	default:
		if w.rounds > 0 {
			data = bytes.NewBuffer(append([]byte{'\n'}, data.Bytes()...))
		}
		if _, err := s.out.Write(data.Bytes()); err != nil {
			return err
		}
	}
	if w.rounds == 0 {
		_, err = s.err.Write(notes.Bytes()) // once: a pipe needs no clock in every round
	}
	w.rounds++
	return err
}

// changes prints the lines that the last round did not have.
func (w *watching) changes(text string) {
	now := map[string]bool{}
	for line := range strings.Lines(text) {
		now[line] = true
		if !w.before[line] {
			_, _ = w.s.out.Write([]byte(line)) // the writer keeps its own error
		}
	}
	w.before = now
}

// frame draws over the last round without clearing first, which would flicker.
// What does not fit is cut off: a terminal that wraps or scrolls would show each
// round in another place. Of an unknown size, 0, nothing is cut.
func frame(text string, columns, rows int) []byte {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if rows > 1 && len(lines) > rows-1 {
		hidden := len(lines) - (rows - 2)
		lines = append(lines[:rows-2:rows-2], fmt.Sprintf("and %s more: the terminal is too low", count(hidden, "line")))
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines {
		if columns > 0 {
			line = clipPainted(line, columns)
		}
		b.WriteString(line + "\x1b[K\r\n")
	}
	b.WriteString("\x1b[J")
	return []byte(b.String())
}

// clipPainted cuts a line that may be painted to so many columns.
func clipPainted(line string, columns int) string {
	parts := colorMark.Split(line, -1)
	if width(strings.Join(parts, "")) <= columns {
		return line
	}
	var b strings.Builder
	marks, left := colorMark.FindAllString(line, -1), columns
	for i, part := range parts {
		if i > 0 {
			b.WriteString(marks[i-1]) // also behind the cut: each ends what another began
		}
		switch w := width(part); {
		case left == 0:
		case w < left:
			b.WriteString(part)
			left -= w
		default:
			b.WriteString(clip(part+" ", left))
			left = 0
		}
	}
	return b.String()
}

// colorMark matches what begins or ends a color.
var colorMark = regexp.MustCompile("\x1b\\[[0-9]*m")
