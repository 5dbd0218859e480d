package admincli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// An instant whose year RFC 3339 cannot write in the zone in which it is shown
// is refused by every flag that takes one, and nothing is changed. One that is
// just inside is taken.
func TestInstantsThatCannotBeShownAreRefused(t *testing.T) {
	const east, west = "Asia/Tokyo", "America/New_York"
	const late, early = "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"
	for line, allowed := range map[string]string{
		"schedule trigger " + east + " --at-instant AT": late, "schedule why " + east + " AT": late, "schedule skip " + east + " AT": late,
		"schedule unskip " + east + " AT": late, "schedule pause " + east + " --until AT": late, "schedule pause -l zone=all --until AT": late,
		"schedule preview " + east + " --from AT": late, "schedule preview " + east + " --to AT": late,
		"schedule preview --cron @daily --tz Asia/Tokyo --from AT": late, "schedule backfill " + east + " --from AT --to now": late,
		"schedule backfill " + east + " --from -1h --to AT": late, "schedule create x --every 1h --type log --tz Asia/Tokyo --starts AT": late,
		"schedule create x --every 1h --type log --tz Asia/Tokyo --ends AT": late, "schedule create x --type log --tz Asia/Tokyo --at AT": late,
		"schedule update " + east + " --ends AT": late, "schedule update " + east + " --starts AT": late, "cron next @daily --tz Asia/Tokyo --from AT": late,
		"cron prev @daily --tz Asia/Tokyo --from AT": late, "cron overlap @daily @hourly --tz Asia/Tokyo --from AT": late,
		"--tz Asia/Tokyo periodic pause sweep --until AT": late, "--tz Asia/Tokyo schedule why UTC AT": late,
		"schedule why " + west + " AT": early, "schedule preview " + west + " --from AT": early, "cron prev @daily --tz America/New_York --from AT": early,
		"schedule skip " + west + " AT": early, "schedule backfill " + west + " --from AT --to now": early,
	} {
		r := newRig(t)
		for _, zone := range []string{east, west, "UTC"} {
			r.must("schedule", "create", nameOf(zone), "--cron", "@hourly", "--tz", zone, "--type", "log", "--label", "zone=all")
		}
		before := r.snapshot()
		args := strings.Fields(line)
		for i, arg := range args {
			switch {
			case arg == "AT":
				args[i] = allowed
			case (arg == east || arg == west || arg == "UTC") && args[i-1] != "--tz":
				args[i] = nameOf(arg)
			}
		}
		got := r.run(args...)
		if got.code != exitUsage || !strings.Contains(got.stderr, "in the years 1 to 9999, also in the zone in which it is shown") || r.snapshot() != before {
			t.Errorf("admin %s: exit %d, %s", strings.Join(args, " "), got.code, got.stderr)
		}
	}
	r := newRig(t)
	r.must("schedule", "create", "utc", "--every", "1h", "--type", "log", "--ends", "9999-12-31T23:59:59Z")
	r.must("schedule", "create", "tokyo", "--every", "1h", "--type", "log", "--tz", "Asia/Tokyo", "--ends", "9999-12-31 23:59:59")
	got := r.must("schedule", "trigger", "tokyo", "--at-instant", "9999-12-31T23:59:59", "-o", "json")
	if !strings.Contains(got.stdout, `"9999-12-31T23:59:59+09:00"`) {
		t.Errorf("the last second of 9999: %s", got.stdout)
	}
}

func nameOf(zone string) string { return strings.ToLower(strings.ReplaceAll(zone, "/", "-")) }

var rfc3339 = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)

// What is stored already, or is looked at in another zone, is shown in UTC when
// its year has five digits there: machines can read it.
func TestStoredInstantsAreAlwaysWritable(t *testing.T) {
	r := newRig(t)
	at := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	if _, err := r.stores.Catalog.Put(t.Context(), schedule.Schedule{ID: "a", Type: "log", Timezone: "Asia/Tokyo",
		Specs: []schedule.SpecDefinition{{At: []string{at.Format(time.RFC3339)}}}}, schedule.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.stores.Catalog.Pause(t.Context(), "a", schedule.PauseOptions{By: "ana", Until: at}); err != nil {
		t.Fatal(err)
	}
	for _, tz := range []string{"schedule", "UTC", "Asia/Tokyo"} {
		for _, args := range [][]string{{"schedule", "list"}, {"schedule", "get", "a"}} {
			out := r.must(append(args, "-o", "json", "--tz", tz)...).stdout
			if !strings.Contains(out, `"paused_until": "9999-12-31T23:59:59Z"`) {
				t.Errorf("%v in %s: %s", args, tz, out)
			}
			for _, text := range rfc3339.FindAllString(out, -1) {
				var parsed time.Time
				if err := json.Unmarshal([]byte(text), &parsed); err != nil {
					t.Errorf("%v in %s: %s: %v", args, tz, text, err)
				}
			}
		}
	}
}
