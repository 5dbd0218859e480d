package admincli

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// Every form of the one string is compared, without a store.
func TestOverlapOfEveryForm(t *testing.T) {
	tests := []struct {
		args  []string
		count int
		first string
		text  string
	}{
		{[]string{"0 2 * * *", "*/7 * * * *"}, 366, "2026-12-01T02:00:00Z", "both fire 366 times within 366d"},
		{[]string{"0 9 * * MON", "0 9 1 * *", "--tz", "Europe/Berlin", "--within", "3650d"}, 17, "2027-02-01T09:00:00+01:00", "both fire 17 times within 3650d"},
		{[]string{"TZ=Europe/Berlin 0 9 * * *", "TZ=America/New_York 0 3 * * *", "--within", "10d"}, 10, "2026-11-30T09:00:00+01:00", "10 times"},
		{[]string{"@hourly", "90m", "--within", "1d"}, 8, "2026-11-30T09:00:00Z", "8 times"},
		{[]string{"once:2026-12-24T09:00:00Z", "0 9 24 12 *"}, 1, "2026-12-24T09:00:00Z", "both fire 1 time within 366d"},
		{[]string{"@every 1h from 2026-01-01T00:20:00Z", "@hourly"}, 0, "", "never within 366d"},
		{[]string{"0 9 * * 1-5 | 0 11 * * 6", "0 11 * * *", "--within", "14d"}, 2, "2026-12-05T11:00:00Z", "2 times"},
		{[]string{"500ms", "1s", "--within", "1m"}, 60, "2026-11-30T06:07:03Z", "60 times"},
		{[]string{"once:2020-01-01T00:00:00Z", "1s"}, 0, "", "never within 366d"},
		{[]string{"H 3 * * *", "*/1 3 * * *", "--id", "a", "--within", "3d"}, 3, "", "3 times"},
	}
	for _, test := range tests {
		r := newRig(t)
		delete(r.environ, "BELFRY_REDIS_URL")
		args := append([]string{"cron", "overlap"}, test.args...)
		if got := r.must(args...); !strings.Contains(got.stdout, test.text) || r.opened > 0 {
			t.Errorf("%q: %s", test.args, got.stdout)
		}
		var v overlapJSON
		if err := json.Unmarshal([]byte(r.must(append(args, "-o", "json")...).stdout), &v); err != nil {
			t.Fatal(err)
		}
		if v.Count != test.count || !v.Complete || len(v.First) != min(test.count, 5) || test.first != "" && *v.First[0].At != test.first {
			t.Errorf("%q: %d, %+v", test.args, v.Count, v.First)
		}
	}
}

func TestOverlapRefuses(t *testing.T) {
	r := newRig(t)
	for _, args := range [][]string{{"@after 10m", "1h"}, {"1h", "25 25 * * *"}, {"1h", "2h", "--within", "0s"}, {"1h", "2h", "-n", "0"}, {"1h"}} {
		if got := r.run(append([]string{"cron", "overlap"}, args...)...); got.code != exitUsage || got.stdout != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// What fires too often to be compared whole is said to be looked at in part.
func TestOverlapSaysHowFarItLooked(t *testing.T) {
	r := newRig(t)
	got := r.must("cron", "overlap", "100ms", "@every 100ms from 2026-01-01T00:00:00.050Z")
	if !strings.HasPrefix(got.stdout, "never until 2026-12-0") || !strings.Contains(got.stderr, "go on with --from 2026-12-0") {
		t.Errorf("%+v", got)
	}
}

// The walk finds what looking at every time of both finds.
func TestMeetAgainstBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	forms := []string{"*/7 * * * *", "0 */3 * * *", "5m", "90s", "30 2 * * *", "@every 1h from 2026-01-01T00:20:00Z", "0 9 * * 1-5 | 0 11 * * 6", "@hourly", "15 10 * * * *"}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		var specs [2]schedule.Spec
		for i := range specs {
			if specs[i], err = schedule.ParseWith(forms[random.IntN(len(forms))], schedule.CronOptions{Location: zone}); err != nil {
				t.Fatal(err)
			}
		}
		from := time.Date(2027, 3, 20+random.IntN(15), random.IntN(24), random.IntN(60), 0, 0, time.UTC)
		end := from.Add(72 * time.Hour)
		fires := map[int64]bool{}
		for at, ok := specs[0].Next(from); ok && !at.After(end); at, ok = specs[0].Next(at) {
			fires[at.UnixMilli()] = true
		}
		want := 0
		for at, ok := specs[1].Next(from); ok && !at.After(end); at, ok = specs[1].Next(at) {
			if fires[at.UnixMilli()] {
				want++
			}
		}
		if got := meet(specs[0], specs[1], from, end, 3); got.count != want || !got.whole || len(got.first) != min(want, 3) {
			t.Errorf("%s and %s from %s: %+v, want %d", specs[0], specs[1], from, got, want)
		}
	}
}
