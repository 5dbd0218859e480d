package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// expectField checks that err is a *FieldError about that field and value and
// that its hint contains some words.
func expectField(t *testing.T, err error, field, value, hint string) {
	t.Helper()
	var e *FieldError
	switch {
	case !errors.As(err, &e):
		t.Errorf("%s %q: error %v, want a *FieldError", field, value, err)
	case e.Field != field || e.Value != value || e.Allowed == "" || !strings.Contains(e.Hint, hint):
		t.Errorf("error %+v, want field %q, value %q, hint with %q", *e, field, value, hint)
	}
}

func TestParseCronRefusals(t *testing.T) {
	for _, test := range []struct{ expression, field, value, hint string }{
		{"", "cron", "", ""},
		{"* * * *", "cron", "* * * *", "missing"},
		{"daily", "cron", "daily", "1 field"},
		{"*/60 * * * *", "cron minute", "*/60", "every hour is *"},
		{"*/90 * * * *", "cron minute", "*/90", "every: 90m"},
		{"*/120 * * * *", "cron minute", "*/120", "every 2 hours is */2 in the hour field"},
		{"*/0 * * * *", "cron minute", "*/0", "*/1"},
		{"0 24 * * *", "cron hour", "24", "midnight is hour 0"},
		{"60 * * * *", "cron minute", "60", "0 is the first"},
		{"0 0 0 * *", "cron day-of-month", "0", "last day is L"},
		{"0 0 -1 * *", "cron day-of-month", "-1", "last day is L"},
		{"+5 * * * *", "cron minute", "+5", "no sign"},
		{"0 0 1 0 *", "cron month", "0", "January is 1"},
		{"0 0 1 janu *", "cron month", "JANU", "JAN"},
		{"0 0 * * MON-TUR", "cron day-of-week", "MON-TUR", "TUE"},
		{"0 0 * * L", "cron day-of-week", "L", "FRIL"},
		{"0 0 * * MON-FRIL", "cron day-of-week", "MON-FRIL", "MON-FRI#L"},
		{"0 0 * * 7/2", "cron day-of-week", "7/2", "0/2"},
		{"0 0 1 1 * 2026", "cron day-of-week", "2026", "seven fields"},
		{"0 0 0 1 1 * 2030-2026", "cron year", "2030-2026", "2026-2030"},
		{"0 0 0 1 1 * 1969", "cron year", "1969", ""},
		{"0 0 0 1 1 * 2100", "cron year", "2100", ""},
		{"0 0 1,,2 * *", "cron day-of-month", "1,,2", "comma"},
		{"0 0 32W * *", "cron day-of-month", "32W", "one day from 1 to 31"},
		{"0 0 L-31 * *", "cron day-of-month", "L-31", "0 to 30"},
		{"@wekly", "cron", "@wekly", "@weekly"},
		{"@reboot", "cron", "@reboot", "one-shot"},
		{"H * * * *", "cron minute", "H", "ID"},
		{"TZ=europe/berlin 0 0 * * *", "timezone", "europe/berlin", "Europe/Berlin"},
		{"TZ=Local 0 0 * * *", "timezone", "Local", "host"},
		{"TZ=../etc/passwd 0 0 * * *", "timezone", "../etc/passwd", ""},
		{"TZ=/etc/passwd 0 0 * * *", "timezone", "/etc/passwd", ""},
	} {
		_, err := ParseCron(test.expression, nil)
		expectField(t, err, test.field, test.value, test.hint)
	}
	long := "0" + strings.Repeat(",0", MaxExpression) + " * * * *"
	if _, err := ParseCron(long, nil); err == nil || !strings.Contains(err.Error(), "1024 bytes") {
		t.Errorf("a long expression: %v", err)
	}
	exact := "0" + strings.Repeat(" ", MaxExpression-9) + "* * * *"
	if _, err := ParseCron(exact+" ", nil); err != nil || len(exact) != MaxExpression-1 {
		t.Errorf("%d bytes: %v", len(exact)+1, err)
	}
}

func TestCanonicalForm(t *testing.T) {
	for expression, want := range map[string]string{
		" 00  09 * * mon-Friday ":             "0 9 * * 1-5",
		"@daily":                              "0 0 * * *",
		"@Weekly":                             "0 0 * * 0",
		"@hourly":                             "0 * * * *",
		"@minutely":                           "* * * * *",
		"0 0 ? jan,DECEMBER 7":                "0 0 * 1,12 0",
		"TZ=Europe/Berlin 0 0 l-0,lw,15w * *": "TZ=Europe/Berlin 0 0 L,LW,15W * *",
		"CRON_TZ=UTC 7/10 22-2 * * 7L,fri#2":  "7/10 22-2 * * 0L,5#2",
		"5-5 * 13 * +fri":                     "5-5 * 13 * +5",
		"0 0 0 1 1 * 2026-2030/2":             "0 0 0 1 1 * 2026-2030/2",
	} {
		spec, err := ParseCron(expression, nil)
		if err != nil {
			t.Errorf("%q: %v", expression, err)
			continue
		}
		if spec.String() != want {
			t.Errorf("%q is %q, want %q", expression, spec, want)
		}
	}
}

func TestZonePrefixAndLocation(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ParseCron("TZ=Europe/Berlin 0 12 * * *", berlin)
	if err != nil {
		t.Fatal(err)
	}
	next, ok := spec.Next(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC))
	if !ok || next.Location().String() != "Europe/Berlin" || next.UTC().Hour() != 10 {
		t.Errorf("Next is %s", next)
	}
	_, err = ParseCron("TZ=Europe/Paris 0 12 * * *", berlin)
	expectField(t, err, "timezone", "Europe/Paris", "one place")
	if _, err = ParseCron("TZ=Europe/Paris 0 12 * * *", time.UTC); err == nil {
		t.Error("a prefix against UTC is accepted")
	}
	fixed := time.FixedZone("plant", -5*3600)
	spec, err = ParseCron("0 12 * * *", fixed)
	if err != nil || spec.String() != "0 12 * * *" {
		t.Errorf("%v, %v", spec, err)
	}
	expectRuns(t, spec, "2026-01-01T00:00:00Z", "2026-01-01T17:00:00Z")
	if _, err = ParseCron("0 12 * * *", time.FixedZone("odd", 1<<40)); err == nil {
		t.Error("an impossible offset is accepted")
	}
}

// hashOf is the definition of H, written out.
func hashOf(id, field string, span uint64) uint64 {
	sum := sha256.Sum256([]byte(id + "\x00" + field))
	return binary.BigEndian.Uint64(sum[:8]) % span
}

func TestHash(t *testing.T) {
	for _, id := range []string{"a", "nightly-report", "Z.9_x"} {
		h := func(field string, span uint64) uint64 { return hashOf(id, field, span) }
		for expression, want := range map[string]string{
			"H H H H H":          fmt.Sprintf("%d %d %d %d %d", h("minute", 60), h("hour", 24), 1+h("day-of-month", 28), 1+h("month", 12), h("day-of-week", 7)),
			"h(0-29) 2 * * *":    fmt.Sprintf("%d 2 * * *", h("minute", 30)),
			"H/15 * * * *":       fmt.Sprintf("%d-59/15 * * * *", h("minute", 15)),
			"H(10-40)/7 * * * *": fmt.Sprintf("%d-40/7 * * * *", 10+h("minute", 7)),
			"H H H * * *":        fmt.Sprintf("%d %d %d * * *", h("second", 60), h("minute", 60), h("hour", 24)),
			"0 H(22-3) * * *":    fmt.Sprintf("0 %d * * *", (22+h("hour", 6))%24),
			"0 0 H/31 * *":       fmt.Sprintf("0 0 %d-28/31 * *", 1+h("day-of-month", 28)),
			"0 0 * * H(1-5),0":   fmt.Sprintf("0 0 * * %d,0", 1+h("day-of-week", 5)),
		} {
			spec, err := ParseCronWith(expression, CronOptions{ScheduleID: ID(id)})
			if err != nil {
				t.Errorf("%q: %v", expression, err)
			} else if spec.String() != want {
				t.Errorf("%q for %s is %q, want %q", expression, id, spec, want)
			}
		}
	}
	// The values are promised for ever: a worker of another version must agree.
	spec, err := ParseCronWith("H H * * *", CronOptions{ScheduleID: "nightly-report"})
	if err != nil || spec.String() != "4 23 * * *" {
		t.Errorf("%v, %v", spec, err)
	}
	// H without / counts as the number that it stands for: fixed, once a day.
	fixed, err := parseCron("H(30-30) H(1-1) * * *", CronOptions{ScheduleID: "a"})
	if err != nil || fixed.interval || fixed.String() != "30 1 * * *" {
		t.Errorf("%v, %v", fixed, err)
	}
	for _, bad := range []string{"H(1-2 * * * *", "H() * * * *", "H(5) * * * *", "H(0-60) * * * *", "HH * * * *", "H-5 * * * *", "H/0 * * * *", "H/60 * * * *"} {
		if spec, err := ParseCronWith(bad, CronOptions{ScheduleID: "a"}); err == nil {
			t.Errorf("%q is %s", bad, spec)
		}
	}
	if _, err := ParseCronWith("0 0 0 1 1 * H", CronOptions{ScheduleID: "a"}); err == nil {
		t.Error("H in year is accepted")
	}
}

// Reading an expression needs memory for what it returns and nothing else.
func TestParsingAllocatesOnlyItsResult(t *testing.T) {
	for expression, most := range map[string]float64{"*/5 * * * *": 1, "0 0,15,30-45/5 9-17 LW,15W 1-6 1#1,5L 2026-2030": 1, "0 9 * * MON-FRI": 2} {
		allocations := testing.AllocsPerRun(100, func() {
			if _, err := ParseCron(expression, time.UTC); err != nil {
				t.Fatal(err)
			}
		})
		if allocations > most {
			t.Errorf("%s: %.0f allocations, want at most %.0f", expression, allocations, most)
		}
	}
}
