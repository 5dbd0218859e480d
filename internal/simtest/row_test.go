package simtest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A row is a schedule of a simulation: what runs when, and where it goes.
type row struct{ id, cron, zone, queue, taskType string }

// definition returns the row as an operator would write it. Nothing is ever
// missed in these simulations without the judge saying so.
func (r row) definition() schedule.Schedule {
	return schedule.Schedule{ID: schedule.ID(r.id), Specs: []schedule.SpecDefinition{{Cron: r.cron, Timezone: r.zone}},
		Type: r.taskType, Queue: r.queue, Payload: []byte(`{"of":"` + r.id + `"}`), Missed: schedule.MissedAll, CatchUp: time.Hour}
}

// readFleet returns the schedules of public applications in testdata/fleet.tsv.
func readFleet(t testing.TB) []row {
	t.Helper()
	text, err := os.ReadFile("testdata/fleet.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) < 5 {
			t.Fatalf("fleet.tsv: %q has fewer than five columns", line)
		}
		rows = append(rows, row{id: f[0], cron: f[1], zone: f[2], queue: f[3], taskType: f[4]})
	}
	if len(rows) < 30 {
		t.Fatalf("fleet.tsv has %d schedules, want 30 or more: is the file whole?", len(rows))
	}
	return rows
}

// clockChanges are schedules inside the hours that the autumn changes of the
// fleet's zones repeat; the fleet itself has none there.
func clockChanges() []row {
	return []row{
		{"london-fixed", "30 1 * * *", "Europe/London", "ops", "clock:fixed"},
		{"london-interval", "*/20 1 * * *", "Europe/London", "ops", "clock:interval"},
		{"new-york-fixed", "15 1 * * *", "America/New_York", "ops", "clock:fixed"},
		{"new-york-hourly", "45 * * * *", "America/New_York", "ops", "clock:hourly"},
		{"cairo-midnight", "30 23 * * *", "Africa/Cairo", "ops", "clock:fixed"},
	}
}
