package admincli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The history by verdict has every scheduled time once, and says of each what
// became of it then; late and failed come from the run log.
func TestHistoryByVerdict(t *testing.T) {
	r := newRig(t)
	r.must("schedule", "create", "a", "--every", "5m", "--type", "log", "--overlap", "skip")
	fails, busy := false, false
	f := &fleet{r: r, word: map[string]string{}, fails: func() bool { return fails }, busy: func() bool { return busy }}
	r.advance(2*time.Minute + 58*time.Second) // on the grid from here
	step := func(n int, late time.Duration) {
		for range n {
			f.work()
			f.work() // what is coalesced comes first
			r.advance(late)
			f.run()
			r.advance(5*time.Minute - late)
		}
	}
	step(3, 0) // 06:10, 06:15, 06:20 fire
	busy = true
	step(3, 0) // 06:25 fires and does not end, so that 06:30 and 06:35 overlap
	busy = false
	f.run()                            // 06:25 began 15 minutes late
	r.advance(20 * time.Minute)        // 06:40 to 06:55 are coalesced into 07:00
	step(1, 0)                         //
	fails = true                       //
	step(2, 0)                         // 07:05 and 07:10 fail
	fails = false                      //
	step(1, 45*time.Second)            // 07:15 begins late
	r.must("schedule", "trigger", "a") // and an extra run, which has no verdict
	r.advance(time.Minute)             // 07:20 is due and nobody comes
	tests := []struct {
		args  []string
		times string // by verdict, newest first
	}{
		{[]string{"fired"}, "fired 4 07:00-07:15, fired 4 06:10-06:25"},
		{[]string{"missed"}, "coalesced 4 06:40-06:55"},
		{[]string{"coalesced"}, "coalesced 4 06:40-06:55"},
		{[]string{"skipped"}, "overlap 2 06:30-06:35"},
		{[]string{"overlap", "--since", "30m"}, ""},
		{[]string{"paused"}, ""},
		{[]string{"failed"}, "fired 1 07:10-07:10, fired 1 07:05-07:05"},
		{[]string{"failed", "-n", "1"}, "fired 1 07:10-07:10"},
		{[]string{"late"}, "pending 1 07:20-07:20, fired 1 07:15-07:15, fired 1 06:25-06:25"},
		{[]string{"late", "--grace", "2m"}, "fired 1 06:25-06:25"},
	}
	for _, test := range tests {
		args := append([]string{"schedule", "history", "a", "--verdict"}, test.args...)
		var rows []historyJSON
		if err := json.Unmarshal([]byte(r.must(append(args, "-o", "json")...).stdout), &rows); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range rows {
			got = append(got, row.Verdict+" "+string(rune('0'+*row.Count))+" "+(*row.FirstAt)[11:16]+"-"+(*row.LastAt)[11:16])
		}
		if text := strings.Join(got, ", "); text != test.times {
			t.Errorf("%q: %s, want %s", test.args, text, test.times)
		}
	}
	fired := r.must("schedule", "history", "a", "--verdict", "fired")
	for _, want := range []string{"2 succeeded, 2 failed", "4 succeeded", "the record goes back to 2026-11-30 06:10 UTC"} {
		if !strings.Contains(fired.stdout+fired.stderr, want) {
			t.Errorf("%q is not in %s%s", want, fired.stdout, fired.stderr)
		}
	}
	if got := r.must("schedule", "history", "a", "--verdict", "late"); !strings.Contains(got.stderr, "1 firing has not ended") || !strings.Contains(got.stdout, "45s") {
		t.Errorf("late: %+v", got)
	}
	for _, args := range [][]string{{"--verdict", "lost"}, {"--verdict", "fired", "--outcome", "failed"}, {"--verdict", "late", "--grace", "x"}} {
		if got := r.run(append([]string{"schedule", "history", "a"}, args...)...); got.code != exitUsage {
			t.Errorf("%q: %+v", args, got)
		}
	}
}
