package admincli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// What a follow tells.
const (
	followState   = "state"   // where the firing stands now
	followAttempt = "attempt" // an attempt has ended
	followEnd     = "end"     // the firing has ended; it is the last
)

// A followJSON is one thing that became known of a firing.
type followJSON struct {
	FiringID     string  `json:"firing_id"`
	At           *string `json:"at"` // when it was so: of an attempt its end, of a state the time of the look
	AtMS         *int64  `json:"at_ms"`
	Event        string  `json:"event"`   // state, attempt or end
	State        string  `json:"state"`   // of the firing: buffered, promised, waiting, running, retrying or ended; "" beside an attempt
	Attempt      int     `json:"attempt"` // 0: none has begun
	Worker       string  `json:"worker"`
	Outcome      string  `json:"outcome"`    // of the attempt, or of the firing; "" is not known
	StartedAt    *string `json:"started_at"` // of the attempt; null: it never ran, or it has not ended
	DurationMS   int64   `json:"duration_ms"`
	Error        string  `json:"error"`
	Text         string  `json:"text"`             // for people
	Output       *string `json:"output,omitempty"` // of the last: what the handler left
	OutputBase64 string  `json:"output_base64,omitempty"`
}

// A follower tells what becomes known of a firing, each thing once.
type follower struct {
	s      *session
	entry  schedule.Entry
	firing claim.Firing
	silent bool // the output has one end only: nothing is told before

	ended    []claim.RunRecord // attempts that were told
	state    string            // that was told last
	looks    int
	obstacle string // why it waits, that was found last
	told     bool   // that the store does not answer
}

// attemptKey tells attempts apart.
type attemptKey struct {
	attempt int
	token   claim.Token
	outcome claim.RunOutcome
	ended   int64
}

func keyOf(r claim.RunRecord) attemptKey {
	return attemptKey{r.Attempt, r.Token, r.Outcome, r.Ended.UnixMilli()}
}

// followLogs tells what becomes known of a firing until it has ended. What it
// returns says how that was.
func (s *session) followLogs(f *logsFlags, firing claim.Firing, e schedule.Entry) error {
	l := &follower{s: s, entry: e, firing: firing, silent: f.raw || !s.tabular() && s.flags.format != formatJSONL}
	if _, err := s.logsOf(firing, e); err != nil {
		return err
	}
	var last *claim.RunRecord
	err := s.repeat(0, awaitPoll, func() (over bool, err error) {
		over, last, err = l.look()
		switch {
		case s.out.err != nil:
			return true, nil // Run reports it
		case err == nil:
			l.told = false
		case l.looks > 0 && s.ctx.Err() == nil && isUnreachable(err):
			if !l.told {
				s.warn("%s; it goes on when the store answers", describe(err, s.address))
			}
			l.told, err = true, nil
		}
		return over, err
	})
	switch {
	case s.interrupted() || errors.Is(err, context.Canceled):
		s.warn("interrupted; firing %s goes on: see admin run get %s", firing.ID(), shellWord(string(firing.ID())))
		return errInterrupted
	case err != nil:
		return err
	}
	if l.silent {
		err = s.showEnded(f, firing, e)
	} else {
		err = l.end(last)
	}
	if err == nil && (last == nil || last.Outcome != claim.OutcomeSucceeded) {
		return silentCode(exitCondition)
	}
	return err
}

// look tells what is new. Over is when the firing has ended; last is then its
// last attempt, nil when the run log does not hold it.
func (l *follower) look() (over bool, last *claim.RunRecord, err error) {
	open, runs, err := l.s.lookAt(l.firing.Schedule, l.firing.ID())
	if err != nil {
		return false, nil, err
	}
	l.looks++
	for i := len(runs) - 1; i >= 0; i-- { // oldest first
		r := &runs[i]
		if !slices.ContainsFunc(l.ended, func(told claim.RunRecord) bool { return keyOf(told) == keyOf(*r) }) {
			l.ended = append(l.ended, *r)
			if err := l.attempt(*r); err != nil {
				return false, nil, err
			}
		}
		if r.Outcome != claim.OutcomeRetrying {
			last = r
		}
	}
	if last != nil || open == nil {
		return true, last, nil
	}
	// The log was read later than the ledger: it may hold the end of what the
	// ledger shows as running.
	if open.State == claim.FiringRunning && slices.ContainsFunc(runs, func(r claim.RunRecord) bool { return r.Token == open.Token }) {
		return false, nil, nil
	}
	return false, nil, l.stands(*open)
}

// attempt tells of one that has ended.
func (l *follower) attempt(r claim.RunRecord) error {
	in := l.zone()
	text := fmt.Sprintf("%s, it never ran", r.Outcome)
	if !r.Started.IsZero() {
		text = fmt.Sprintf("attempt %d %s after %s on %s, started %s", r.Attempt, r.Outcome, fine(max(0, r.Duration)), or(r.Worker, "no worker"), stamp(r.Started, in))
	}
	if r.Error != "" {
		text += ": " + r.Error
	}
	return l.tell(followJSON{Event: followAttempt, Attempt: r.Attempt, Worker: r.Worker, Outcome: string(r.Outcome), StartedAt: iso(r.Started, in),
		DurationMS: r.Duration.Milliseconds(), Error: r.Error, Text: text}, r.Ended)
}

// lookAround is after how many looks it is asked again why a firing waits.
const lookAround = 10

// stands tells where a firing stands, when that is not what was told last.
func (l *follower) stands(open claim.OpenFiring) error {
	text := l.words(open)
	if l.looks%lookAround == 1 || text != l.state {
		q := question{entry: l.entry, r: l.s.read(l.entry.Schedule), now: l.s.env.Now(), at: l.firing.ScheduledAt, open: &open}
		var why answer
		if err := l.s.waits(&q, &why); err != nil {
			return err
		}
		l.obstacle = why.text // begins with "; "
		if why.hint != "" {
			l.obstacle += " (" + why.hint + ")"
		}
	}
	if l.silent || text+l.obstacle == l.state {
		return nil
	}
	l.state = text + l.obstacle
	return l.tell(followJSON{Event: followState, State: stateWord(open), Attempt: open.Attempt, Worker: open.Worker, Text: l.state}, l.s.env.Now())
}

// words say where an open firing stands.
func (l *follower) words(open claim.OpenFiring) string {
	c := cancelling{open: &open}
	c.row.State = stateWord(open)
	text := c.words()
	if c.row.State == "running" && !open.LeaseUntil.IsZero() && open.LeaseUntil.Before(l.s.env.Now()) {
		text = fmt.Sprintf("%s does not answer in attempt %d, its lease ran out %s: the next audit decides what becomes of it", or(open.Worker, "the worker"),
			open.Attempt, stamp(open.LeaseUntil, l.zone()))
	}
	return text + openView(&open, time.UTC).besides()
}

// end tells how the firing ended, and what its handler left.
func (l *follower) end(last *claim.RunRecord) error {
	v, err := l.s.logsOf(l.firing, l.entry)
	if err != nil {
		return err
	}
	told := followJSON{Event: followEnd, State: "ended", Text: "it is over; its run log does not hold how it ended"}
	at := l.s.env.Now()
	if last != nil {
		in := l.zone()
		told.Attempt, told.Worker, told.Outcome, told.Error, at = last.Attempt, last.Worker, string(last.Outcome), last.Error, last.Ended
		told.StartedAt, told.DurationMS = iso(last.Started, in), last.Duration.Milliseconds()
		told.Text = "it has ended as " + told.Outcome
	}
	if v.task != nil {
		told.Output, told.OutputBase64 = outputOf(v.task.Result)
	}
	if err := l.tell(told, at); err != nil || !l.s.tabular() {
		return err
	}
	v.writeOutput(l.s.out)
	return nil
}

// outputOf is what a handler left, as text or as base64 when it is no UTF-8.
func outputOf(result []byte) (text *string, base string) {
	switch {
	case len(result) == 0:
		return nil, ""
	case utf8.Valid(result):
		exact := string(result)
		return &exact, ""
	}
	return nil, base64.StdEncoding.EncodeToString(result)
}

// tell prints one line.
func (l *follower) tell(v followJSON, at time.Time) error {
	if l.silent {
		return nil
	}
	in := l.zone()
	v.FiringID, v.At, v.AtMS = string(l.firing.ID()), iso(at, in), millis(at)
	return l.s.emit(view{data: v, names: []string{v.FiringID}, table: func(w io.Writer) {
		fmt.Fprintf(w, "%s  %s\n", at.In(writable(at, in)).Format("2006-01-02 15:04:05 MST"), visible(v.Text))
	}})
}

func (l *follower) zone() *time.Location {
	return l.s.location(l.s.read(l.entry.Schedule).zone)
}
