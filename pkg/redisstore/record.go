package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// States of a schedule as scripts/lua/lib/shard.lua numbers them.
const (
	stateActive = 1 + iota
	statePaused
	stateDisabled
	stateCompleted
	stateProbing
)

var stateNames = map[int]schedule.State{
	stateActive: schedule.StateActive, statePaused: schedule.StatePaused, stateDisabled: schedule.StateDisabled,
	stateCompleted: schedule.StateCompleted, stateProbing: schedule.StateActive,
}

// Overlap policies and policy bits.
var overlapNumbers = map[schedule.Overlap]int{
	schedule.OverlapAllow: 0, schedule.OverlapSkip: 1, schedule.OverlapBufferOne: 2,
	schedule.OverlapBufferAll: 3, schedule.OverlapCancelOther: 4,
}

const (
	overlapMask     = 7
	policySkips     = 8
	policyCalendar  = 16
	policyDelay     = 32
	firingCancelBit = 2
	firingOwedBit   = 8
	firingHandBit   = 16
	coldNumbers     = 17
)

// A record is what scripts/lua/lib/schedule.lua writes.
type record struct {
	state, policy              int
	version                    int64
	next, notBefore, highWater time.Time
	token, generation          int64
	open, buffered             int
	fired                      int64
	queue                      string
	failures, maxFailures      int64
	until, since               time.Time
	runs, failedRuns           int64
	updated                    time.Time
	history                    []schedule.VerdictRange // oldest first, the current range last
	ranges                     int                     // closed ones, as counted
	coolDown, bufferLimit      int64
	delay, ends, limit         int64
	flaws                      []string // what cannot be read and need not be known; it reads as nothing
}

// recordFields name the fields of a record, in their order.
var recordFields = strings.Fields(`state policy version next_ms not_before_ms high_water_ms token generation open buffered fired range queue
	failures max_failures cool_down_ms until_ms since_ms buffer_limit coalesced missed overlapped others runs failed_runs updated_ms
	delay_ms ends_ms limit ranges history`)

// Bounds of records, as scripts draw them: see decode_schedule in
// scripts/lua/lib/schedule.lua. What one side reads the other must not take for
// damage, since neither then gets anywhere with the schedule.
const (
	longestRecord = 65536           // bytes
	lastMillis    = 253402300799999 // the end of the year 9999
)

// decodeRecord reads a record of a schedule. It refuses what decode_schedule
// refuses, and names the field.
func decodeRecord(text string) (record, error) {
	f := fieldReader{rest: text}
	r := record{state: f.int(), policy: f.int(), version: f.number(), next: f.time(), notBefore: f.time(),
		highWater: f.time(), token: f.counter(), generation: f.generation(), open: f.int(), buffered: f.int(), fired: f.number()}
	current := f.text()
	r.queue = f.text()
	history := ""
	if f.rest != "" {
		history = r.decodeCold(&f)
	}
	if _, known := stateNames[r.state]; !known {
		f.refuse(1, strconv.Itoa(r.state))
	}
	switch {
	case len(text) > longestRecord:
		return record{}, fmt.Errorf("%s is not the record of a schedule, none is longer than %d bytes", shown(text), longestRecord)
	case f.bad:
		return record{}, fmt.Errorf("%s is not the record of a schedule, its field %s is %s", shown(text), recordFields[f.refused-1], shown(f.value))
	}
	r.decodeVerdicts(history, current)
	return r, nil
}

// decodeCold reads the part that scripts seldom need, and returns the closed
// verdict ranges. It is not there while all of it is zero.
func (r *record) decodeCold(f *fieldReader) string {
	var n [coldNumbers]int64
	for i := range n {
		n[i] = f.counter()
	}
	r.failures, r.maxFailures, r.coolDown, r.delay, r.ends, r.limit = n[0], n[1], n[2], n[13], n[14], n[15]
	r.until, r.since, r.updated = r.display("until_ms", n[3]), r.display("since_ms", n[4]), r.display("updated_ms", n[12])
	r.bufferLimit, r.runs, r.failedRuns, r.ranges = n[5], n[10], n[11], int(n[16])
	return f.text()
}

// display is a time that scripts do not need to go on: one that cannot be is
// none.
func (r *record) display(field string, ms int64) time.Time {
	if ms > lastMillis {
		r.flaws = append(r.flaws, fmt.Sprintf("%s %d, which is after the year 9999", field, ms))
		return time.Time{}
	}
	return instant(ms)
}

// decodeVerdicts reads the verdict ranges. Scripts look at the current one
// only, and go on from one that they cannot read with a new one, so that none
// can keep the schedule from its next firing.
func (r *record) decodeVerdicts(closed, current string) {
	texts := strings.Split(strings.TrimSuffix(closed, ";"), ";")
	if closed == "" {
		texts = nil
	}
	if current != "" || len(texts) > 0 || !r.highWater.IsZero() {
		texts = append(texts, current)
	}
	for _, text := range texts {
		if v, ok := readRange(text); ok {
			r.history = append(r.history, v)
		} else {
			r.flaws = append(r.flaws, "the verdict range "+shown(text)+", which is none")
		}
	}
}

// closed counts the ranges that can be read and are not the current one.
func (r *record) closed() int { return max(0, len(r.history)-1) }

// readRange reads a verdict range: verdict, why, count, first, last.
func readRange(text string) (schedule.VerdictRange, bool) {
	parts := strings.Split(text, ",")
	var v [5]int64
	if len(parts) != len(v) {
		return schedule.VerdictRange{}, false
	}
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n > lastToken || len(part) > maxNumber || part[0] == '+' || part[0] == '-' {
			return schedule.VerdictRange{}, false
		}
		v[i] = n
	}
	if v[0] == 0 || v[3] > v[4] || v[4] > lastMillis {
		return schedule.VerdictRange{}, false
	}
	return schedule.VerdictRange{Verdict: schedule.Verdict(v[0]), Why: int(v[1]), Count: v[2],
		First: instant(v[3]), Last: instant(v[4])}, true
}

// rangeText writes a verdict range as scripts read it; nil is "".
func rangeText(v *schedule.VerdictRange) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%d,%d,%d,%d,%d", v.Verdict, v.Why, v.Count, millis(v.First), millis(v.Last))
}

func (r *record) settings() settings {
	return settings{queue: r.queue, policy: r.policy &^ policySkips, bufferLimit: r.bufferLimit, maxFailures: r.maxFailures,
		coolDown: r.coolDown, delay: r.delay, ends: r.ends, limit: r.limit}
}

// created is when the schedule was created: its generation is a token, and
// tokens follow the clock in microseconds.
func (r *record) created() time.Time { return instant(r.generation / 1000) }

// decodeRun reads an entry of the run log.
func decodeRun(text string) (claim.RunRecord, error) {
	f := fieldReader{rest: text}
	run := claim.RunRecord{Ended: f.time(), Outcome: claim.RunOutcome(f.text()), Attempt: f.int(), Token: claim.Token(f.number()),
		Started: f.time(), Duration: time.Duration(f.number()) * time.Millisecond, Firing: claim.FiringID(f.text()), Worker: f.text()}
	run.Error = f.rest
	if f.bad {
		return claim.RunRecord{}, fmt.Errorf("redisstore: %.200q is not the record of a run", text)
	}
	return run, nil
}

// An observed schedule is what one read found of it.
type observed struct {
	definition string // "" when there is none
	record     record
	lastRun    string
	note       string // what became of it since, see scripts/lua/lib/run.lua
	pause      string
	enqueue    string // why the last enqueue failed
	damaged    error  // why the record cannot be read; there is none then
	skips      string // scheduled times to skip, each followed by a comma
}

func (o *observed) exists() bool { return o.record.generation != 0 }

// unreadable says what to do about a record that cannot be read.
func (o *observed) unreadable(id schedule.ID) error {
	return fmt.Errorf("%w: put %q again, which begins it anew", o.damaged, id)
}

// absent says why there is nothing to act on: no schedule, or none whose record
// can be read.
func (o *observed) absent(doing string, id schedule.ID) error {
	if o.damaged != nil {
		return wrap(doing, o.unreadable(id))
	}
	return notFound(doing)
}

// raced says why a schedule could not be changed however often it was tried.
func (o *observed) raced(doing string) error {
	if o.damaged != nil {
		return fmt.Errorf("redisstore: %s: %w, and yet scripts read it: make a backup and report it", doing, o.damaged)
	}
	return fmt.Errorf("redisstore: %s: it changes faster than it can be planned; try again", doing)
}
