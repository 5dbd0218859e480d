package repolint

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// knownNames returns the names that a definition may have, from the error that
// an unknown one gives.
func knownNames(t *testing.T, into any, text string) []string {
	t.Helper()
	var wrong *schedule.FieldError
	if err := json.Unmarshal([]byte(text), into); !errors.As(err, &wrong) {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Split(wrong.Allowed, ", ")
}

// Every name of a schedule file is explained, and the example is accepted.
func TestScheduleFilesAreExplained(t *testing.T) {
	page := readDoc(t, "docs/SCHEDULES.md")
	names := knownNames(t, &schedule.Schedule{}, `{"nothing": 1}`)
	names = append(names, knownNames(t, &schedule.Schedule{}, `{"specs": [{"nothing": 1}]}`)...)
	names = append(names, knownNames(t, &schedule.Calendar{}, `{"nothing": 1}`)...)
	if len(names) < 35 {
		t.Fatalf("only %d names are known: %v", len(names), names)
	}
	for _, name := range names {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/SCHEDULES.md does not explain %s", name)
		}
	}
	for _, block := range blocks(page, "yaml") {
		text, err := yaml.YAMLToJSON([]byte(block))
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Schedules []schedule.Schedule
			Calendars []schedule.Calendar
		}
		if err := json.Unmarshal(text, &file); err != nil || len(file.Schedules) == 0 {
			t.Fatalf("%d schedules: %v", len(file.Schedules), err)
		}
		for _, s := range file.Schedules {
			if _, err := schedule.Compile(s, file.Calendars); err != nil {
				t.Errorf("%s: %v", s.ID, err)
			}
		}
	}
}
