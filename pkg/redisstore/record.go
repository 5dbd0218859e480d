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
	bufferLimit                int64
}

// longestRecord bounds the record of a schedule in bytes, as scripts do.
const longestRecord = 65536

// decodeRecord reads a record of a schedule.
func decodeRecord(text string) (record, error) {
	f := fieldReader{rest: text}
	r := record{state: f.int(), policy: f.int(), version: f.number(), next: f.time(), notBefore: f.time(),
		highWater: f.time(), token: f.number(), generation: f.number(), open: f.int(), buffered: f.int(), fired: f.number()}
	if current := f.text(); current != "" {
		r.history = appendRange(r.history, current, &f)
	}
	r.queue = f.text()
	if f.rest != "" {
		r.decodeCold(&f)
	}
	if _, known := stateNames[r.state]; f.bad || !known || len(text) > longestRecord {
		return record{}, fmt.Errorf("redisstore: %.200q is not the record of a schedule", text)
	}
	return r, nil
}

// decodeCold reads the part that scripts seldom need. It is not there while
// all of it is zero.
func (r *record) decodeCold(f *fieldReader) {
	var n [coldNumbers]int64
	for i := range n {
		n[i] = f.number()
	}
	r.failures, r.maxFailures = n[0], n[1]
	r.until, r.since, r.bufferLimit = instant(n[3]), instant(n[4]), n[5]
	r.runs, r.failedRuns, r.updated, r.ranges = n[10], n[11], instant(n[12]), int(n[16])
	current := r.history
	r.history = nil
	for _, text := range strings.Split(strings.TrimSuffix(f.text(), ";"), ";") {
		if text != "" {
			r.history = appendRange(r.history, text, f)
		}
	}
	r.history = append(r.history, current...)
}

// appendRange reads a verdict range: verdict, why, count, first, last.
func appendRange(ranges []schedule.VerdictRange, text string, f *fieldReader) []schedule.VerdictRange {
	parts := strings.Split(text, ",")
	var v [5]int64
	if len(parts) != len(v) {
		f.bad = true
		return ranges
	}
	for i, part := range parts {
		var err error
		v[i], err = strconv.ParseInt(part, 10, 64)
		f.bad = f.bad || err != nil
	}
	return append(ranges, schedule.VerdictRange{Verdict: schedule.Verdict(v[0]), Why: int(v[1]), Count: v[2],
		First: instant(v[3]), Last: instant(v[4])})
}

// rangeText writes a verdict range as scripts read it; nil is "".
func rangeText(v *schedule.VerdictRange) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%d,%d,%d,%d,%d", v.Verdict, v.Why, v.Count, millis(v.First), millis(v.Last))
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
