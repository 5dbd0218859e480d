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
	current                    schedule.VerdictRange
	queue                      string
	failures, maxFailures      int64
	until, since               time.Time
	runs, failedRuns           int64
	updated                    time.Time
	history                    []schedule.VerdictRange
	ranges                     int
	bufferLimit                int64
}

// decodeRecord reads a record of a schedule.
func decodeRecord(text string) (record, error) {
	f := fieldReader{rest: text}
	r := record{state: f.int(), policy: f.int(), version: f.number(), next: f.time(), notBefore: f.time(),
		highWater: f.time(), token: f.number(), generation: f.number(), open: f.int(), buffered: f.int(), fired: f.number()}
	r.current = schedule.VerdictRange{Verdict: schedule.Verdict(f.int()), Why: f.int(), Count: f.number(), First: f.time(), Last: f.time()}
	r.queue = f.text()
	if f.rest != "" {
		r.decodeCold(&f)
	}
	if f.bad {
		return record{}, fmt.Errorf("redisstore: %q is not the record of a schedule", text)
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
	for _, text := range strings.Split(f.text(), ";") {
		parts := strings.Split(text, ",")
		if len(parts) != 5 {
			f.bad = f.bad || text != ""
			continue
		}
		var v [5]int64
		for i, part := range parts {
			var err error
			v[i], err = strconv.ParseInt(part, 10, 64)
			f.bad = f.bad || err != nil
		}
		r.history = append(r.history, schedule.VerdictRange{Verdict: schedule.Verdict(v[0]), Why: int(v[1]), Count: v[2],
			First: instant(v[3]), Last: instant(v[4])})
	}
}

// verdicts returns all ranges that are kept, oldest first.
func (r *record) verdicts() []schedule.VerdictRange {
	if r.current.Verdict == 0 {
		return r.history
	}
	return append(r.history, r.current)
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
		return claim.RunRecord{}, fmt.Errorf("redisstore: %q is not the record of a run", text)
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
}

func (o *observed) exists() bool { return o.record.generation != 0 }
