package storetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var garbageCases = []testCase{
	{"what is no firing in the ledger is named, handed out to nobody and removed, and no firing with it", garbageRemoved},
	{"the firings of a deleted schedule leave the statistics within their bound", garbageOfDeleted},
}

// noFirings are names that no firing has, around a schedule's generation.
func noFirings(generation int64) []string {
	of := "a:" + strconv.FormatInt(generation, 10) + ":"
	return []string{"", "garbage", ":", "::", of, of + "garbage", of + "05", of + "-5", of + "+5", of + "5.5", of + "0", of + "5 ", of + "5\n", of + "5\x00",
		of + "253402300800000", of + "99999999999999999999", of + "5~1", of + "5:6", of + "m", of + "mx.y", of + "m" + strings.Repeat("r", 37), of + "b", of + "bx",
		of + "b.5", of + "bx.05", of + "bx.-5", of + "r1", of + "rx.5", "a:0" + strings.TrimPrefix(of, "a:") + "5", "a:-1:5", "a:9007199254740992:5",
		"a b:1:5", "a\t:1:5", "{a}:1:5", ".a:1:5", "\xff\xfe:1:5", strings.Repeat("s", 129) + ":1:5", "\x1b[31m:1:5"}
}

// records are what such an entry may hold: also what would be one of a firing.
var records = []string{"", "garbage", "I|0|0|0|0|0|0|0|0|||default|", "B|0|0|0|0|0|0|0|0|||default|", "R|1|9007199254740991|9007199254740991|0|0|0|0|0|o|w|default|",
	"Z|0|0|0|0|0|0|0|0|||default|", "\x00\xff|\n"}

// littered fills every shard with entries that are none.
func (e *env) littered(generation int64) int {
	e.Helper()
	count := 0
	for shard := range e.shards {
		for i, name := range noFirings(generation) {
			e.must("Litter", e.Litter(e.Context(), shard, name, records[(i+shard)%len(records)]))
			count++
		}
	}
	return count
}

func garbageRemoved(e *env) {
	if e.Litter == nil {
		e.Skip("this store can hold no entry that is no firing")
	}
	put := e.put(every("a", overlap(schedule.OverlapBufferOne)))
	open := e.fireNext()
	e.put(every("allow"))
	later := payloadAt("later", past)
	later.ObeyOverlap = true
	waiting := claim.FiringID(e.trigger("a", later).FiringID)
	byHand := claim.FiringID(e.trigger("allow", schedule.TriggerOptions{}).FiringID)
	run := e.runs(open, "one")
	valid := []claim.FiringID{open, waiting, byHand}
	before, _, err := e.Firings.Firings(e.Context(), valid)
	e.must("Firings", err)
	a, allow := e.status("a"), e.status("allow")
	want(e, "open of a", a.Open, 1)
	want(e, "buffered of a", a.Buffered, 1)

	planted := e.littered(put.Generation)
	for range 3 {
		for _, f := range e.audit() {
			if _, known := before[f.Firing]; !known {
				e.Errorf("the audit hands out %q", f.Firing)
			}
		}
		e.advance(auditTime)
	}
	want(e, "heartbeat beside garbage", e.pulse(run), claim.PulseOK)
	found := e.Check(e.Context())
	for _, name := range []string{"garbage, which is no firing", ":05, which is no firing", `\x1b[31m:1:5`} {
		if found == nil || !strings.Contains(found.Error(), name) {
			e.Errorf("Check does not name %s", name)
		}
	}
	repaired := e.Repair(e.Context())
	if repaired == nil || strings.Count(repaired.Error(), " in fir") != planted {
		e.Errorf("Repair removed %d of %d entries: %.300v", strings.Count(fmt.Sprint(repaired), " in fir"), planted, repaired)
	}
	e.must("Repair of what is whole", e.Repair(e.Context()))
	e.must("Check after the repair", e.Check(e.Context()))
	after, _, err := e.Firings.Firings(e.Context(), valid)
	e.must("Firings", err)
	for _, id := range valid {
		got, was := after[id], before[id]
		if got.State != was.State || got.Token != was.Token || got.Attempt != was.Attempt || !got.OpenedAt.Equal(was.OpenedAt) {
			e.Errorf("%s was %+v and is %+v", id, was, got)
		}
	}
	want(e, "open of a", e.status("a").Open, a.Open)
	want(e, "buffered of a", e.status("a").Buffered, a.Buffered)
	want(e, "open of allow", e.status("allow").Open, allow.Open)
	e.finishes(run, claim.OutcomeSucceeded, claim.FinishOK)
	e.released(waiting)
	e.carries(waiting, e.rest[0].Extra, "later", past)
}

// garbageOfDeleted leaves open what no list names: it is found by its run, by
// an audit, or by a repair, which brings forward the audit of a retry that is
// days away.
func garbageOfDeleted(e *env) {
	open := func() int64 {
		e.Helper()
		stats, err := e.Catalog.Stats(e.Context())
		e.must("Stats", err)
		return stats.Open
	}
	atMost := func(when string, most int64) {
		e.Helper()
		if got := open(); got < 0 || got > most {
			e.Errorf("Open %s = %d, want at most %d", when, got, most)
		}
	}
	settle := func() {
		e.Helper()
		for id, f := range e.audit() {
			want(e, "position of "+string(id), f.Position, claim.PositionGone)
			e.settle(claim.SettleRequest{Firing: id, Token: f.Token, Outcome: claim.OutcomeCancelled})
		}
	}
	e.put(every("a"))
	running := e.runs(e.fireNext(), "one")
	e.fireNext()
	later := e.runs(claim.FiringID(e.trigger("a", schedule.TriggerOptions{}).FiringID), "two")
	request := claim.FinishRequest{Run: later, Outcome: claim.OutcomeRetrying, RetryAfter: 20 * 24 * time.Hour, Started: e.Now(), Attempt: 1}
	want(e, "Finish", e.finish(request).Answer, claim.FinishOK)
	want(e, "Open before", open(), 3)
	e.remove("a")
	atMost("after the deletion", 3)
	want(e, "heartbeat", e.pulse(running), claim.PulseLost)
	atMost("when the run heard of it", 2)
	e.advance(auditTime)
	settle()
	atMost("when the audit had its time", 1)
	if e.Repair != nil {
		e.must("Repair", e.Repair(e.Context()))
	}
	e.advance(time.Minute)
	settle()
	want(e, "Open in the end", open(), 0)
}
