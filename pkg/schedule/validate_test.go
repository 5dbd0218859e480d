package schedule

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sound is a definition without fault that fires every hour.
func sound() Schedule {
	return Schedule{ID: "sound", Type: "report:build", Expression: "@hourly"}
}

// fieldErrors takes a joined error apart.
func fieldErrors(t testing.TB, err error) []*FieldError {
	t.Helper()
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*FieldError
		for _, e := range joined.Unwrap() {
			all = append(all, fieldErrors(t, e)...)
		}
		return all
	}
	var field *FieldError
	if !errors.As(err, &field) {
		t.Fatalf("%v (%T) is no *FieldError", err, err)
	}
	return []*FieldError{field}
}

func TestValidateRefuses(t *testing.T) {
	retries := func(n int) *int { return &n }
	tests := []struct {
		name   string
		change func(s *Schedule)
		field  string
	}{
		{"an empty ID", func(s *Schedule) { s.ID = "" }, "id"},
		{"an empty type", func(s *Schedule) { s.Type = "" }, "type"},
		{"a type with a newline", func(s *Schedule) { s.Type = "a\nb" }, "type"},
		{"a queue with a brace", func(s *Schedule) { s.Queue = "{q}" }, "queue"},
		{"no expression and no specs", func(s *Schedule) { s.Expression = "" }, "expression"},
		{"an expression and specs", func(s *Schedule) { s.Specs = []SpecDefinition{{Every: time.Minute}} }, "expression"},
		{"an expression that is none", func(s *Schedule) { s.Expression = "every tuesday" }, "expression"},
		{"an expression with a control character", func(s *Schedule) { s.Expression = "* * * * *\x00" }, "expression"},
		{"an expression that is too long", func(s *Schedule) { s.Expression = strings.Repeat("0,", 600) + "0 * * * *" }, "expression"},
		{"an unknown zone", func(s *Schedule) { s.Timezone = "Mars/Phobos" }, "timezone"},
		{"the host's zone", func(s *Schedule) { s.Timezone = "Local" }, "timezone"},
		{"a zone that contradicts the prefix", func(s *Schedule) { s.Timezone, s.Expression = "Europe/Berlin", "TZ=UTC @daily" }, "expression timezone"},
		{"a spec of nothing", specs(SpecDefinition{}), "specs[0]"},
		{"a spec of two kinds", specs(SpecDefinition{Cron: "@daily", Every: time.Minute}), "specs[0]"},
		{"a spec with an unknown zone", specs(SpecDefinition{Cron: "@daily", Timezone: "Mars/Phobos"}), "specs[0].timezone"},
		{"a bad minute in the second spec", specs(SpecDefinition{Every: time.Hour}, SpecDefinition{Cron: "61 * * * *"}), "specs[1].cron minute"},
		{"an anchor without every", specs(SpecDefinition{Cron: "@daily", Anchor: time.Unix(1, 0)}), "specs[0].anchor"},
		{"an interval below the minimum", specs(SpecDefinition{Every: 99 * time.Millisecond}), "specs[0].every"},
		{"an interval that would be rounded", specs(SpecDefinition{Every: time.Second + 1}), "specs[0].every"},
		{"a negative interval", specs(SpecDefinition{Every: -time.Second}), "specs[0].every"},
		{"the smallest interval there is", specs(SpecDefinition{Every: math.MinInt64}), "specs[0].every"},
		{"an interval that overflows", func(s *Schedule) { s.Expression = "200000d" }, "expression"},
		{"a zero interval", func(s *Schedule) { s.Expression = "0s" }, "expression"},
		{"a negative interval in one string", func(s *Schedule) { s.Expression = "-5m" }, "expression"},
		{"an at that is no time", specs(SpecDefinition{At: []string{"2026-12-24T09:00:00Z", "noon"}}), "specs[0].at[1]"},
		{"a once that is no time", func(s *Schedule) { s.Expression = "once:noon" }, "expression"},
		{"too many instants", specs(SpecDefinition{At: make([]string, 1001)}), "specs"},
		{"too many instants together", specs(SpecDefinition{At: slices.Repeat([]string{"2030-01-01T00:00:00Z"}, 600)}, SpecDefinition{At: slices.Repeat([]string{"2030-01-01T00:00:00Z"}, 600)}), "specs"},
		{"too many dates together", func(s *Schedule) {
			s.Only = slices.Repeat([]Window{{Dates: slices.Repeat([]string{"2030-01-01"}, 600)}}, 2)
		}, "only"},
		{"too long a weekly window", func(s *Schedule) { s.Except = []Window{{Weekly: "Sat 00:00-Mon" + strings.Repeat(" ", 60) + "00:00"}} }, "except[0].weekly"},
		{"too many specs", specs(make([]SpecDefinition, 65)...), "specs"},
		{"a delay below the minimum", specs(SpecDefinition{After: time.Millisecond}), "specs[0].after"},
		{"after and another spec", specs(SpecDefinition{After: time.Minute}, SpecDefinition{Cron: "@daily"}), "specs[0].after"},
		{"after in a union string", func(s *Schedule) { s.Expression = "@after 5m | @daily" }, "expression"},
		{"after with except", func(s *Schedule) { s.Expression, s.Except = "@after 5m", []Window{{Weekly: "Sat 00:00-Mon 00:00"}} }, "except"},
		{"after with only", func(s *Schedule) { s.Expression, s.Only = "@after 5m", []Window{{Calendar: "x"}} }, "only"},
		{"after with missed", func(s *Schedule) { s.Expression, s.Missed = "@after 5m", MissedSkip }, "missed"},
		{"after with catch_up", func(s *Schedule) { s.Expression, s.CatchUp = "@after 5m", time.Hour }, "catch_up"},
		{"a window of nothing", func(s *Schedule) { s.Except = []Window{{}} }, "except[0]"},
		{"a window of two kinds", func(s *Schedule) { s.Only = []Window{{Weekly: "Sat 00:00-Mon 00:00", Cron: "* * * * *"}} }, "only[0]"},
		{"a calendar with a zone of the window", func(s *Schedule) { s.Except = []Window{{Calendar: "x", Timezone: "UTC"}} }, "except[0]"},
		{"a calendar name that is none", func(s *Schedule) { s.Except = []Window{{Calendar: "x y"}} }, "except[0].calendar"},
		{"a date that does not exist", func(s *Schedule) { s.Except = []Window{{Dates: []string{"2026-12-25", "2026-02-30"}}} }, "except[0].dates[1]"},
		{"a reversed range of dates", func(s *Schedule) { s.Except = []Window{{Dates: []string{"2026-12-26..2026-12-24"}}} }, "except[0].dates[0]"},
		{"a weekly window without an end", func(s *Schedule) { s.Except = []Window{{Weekly: "Sat 00:00"}} }, "except[0].weekly"},
		{"a weekly window of no length", func(s *Schedule) { s.Except = []Window{{Weekly: "Sat 00:00-Sat 00:00"}} }, "except[0].weekly"},
		{"a weekly window with hour 25", func(s *Schedule) { s.Except = []Window{{Weekly: "Sat 25:00-Mon 00:00"}} }, "except[0].weekly"},
		{"a cron window that is none", func(s *Schedule) { s.Except = []Window{{Cron: "* 24 * * *"}} }, "except[0].cron hour"},
		{"a window in an unknown zone", func(s *Schedule) { s.Except = []Window{{Cron: "* 2 * * *", Timezone: "Mars/Phobos"}} }, "except[0].timezone"},
		{"too many windows", func(s *Schedule) { s.Except = make([]Window, 65) }, "except"},
		{"ends at starts", func(s *Schedule) { s.Starts, s.Ends = time.Unix(9, 0), time.Unix(9, 0) }, "ends"},
		{"starts before 1970", func(s *Schedule) { s.Starts = time.Unix(-9, 0) }, "starts"},
		{"ends after 9999", func(s *Schedule) { s.Ends = time.Unix(1<<40, 0) }, "ends"},
		{"a negative limit", func(s *Schedule) { s.Limit = -1 }, "limit"},
		{"a negative jitter", func(s *Schedule) { s.Jitter = -1 }, "jitter"},
		{"a jitter that would be rounded", func(s *Schedule) { s.Jitter = 1500 * time.Microsecond }, "jitter"},
		{"too large a payload", func(s *Schedule) { s.Payload = make([]byte, MaxPayload+1) }, "payload"},
		{"a header of ours", func(s *Schedule) { s.Headers = map[string]string{"bElFrY-Token": "1"} }, "headers"},
		{"a header without a name", func(s *Schedule) { s.Headers = map[string]string{"": "1"} }, "headers"},
		{"a header name with a newline", func(s *Schedule) { s.Headers = map[string]string{"a\nb": "1"} }, "headers"},
		{"a header value with a carriage return", func(s *Schedule) { s.Headers = map[string]string{"a": "1\r\nb: 2"} }, "headers.a"},
		{"a header value with a NUL", func(s *Schedule) { s.Headers = map[string]string{"a": "\x00"} }, "headers.a"},
		{"a header value that is no UTF-8", func(s *Schedule) { s.Headers = map[string]string{"a": "\xff"} }, "headers.a"},
		{"too many header bytes", func(s *Schedule) { s.Headers = map[string]string{"a": strings.Repeat("x", MaxHeaders)} }, "headers"},
		{"a negative max_retry", func(s *Schedule) { s.MaxRetry = retries(-1) }, "max_retry"},
		{"a max_retry above 1000", func(s *Schedule) { s.MaxRetry = retries(1001) }, "max_retry"},
		{"a timeout below a second", func(s *Schedule) { s.Timeout = 999 * time.Millisecond }, "timeout"},
		{"a timeout that asynq would cut", func(s *Schedule) { s.Timeout = 1500 * time.Millisecond }, "timeout"},
		{"a retention below the floor", func(s *Schedule) { s.Retention = MinRetention - time.Second }, "retention"},
		{"a retention that asynq would cut", func(s *Schedule) { s.Retention = time.Hour + time.Millisecond }, "retention"},
		{"an unknown missed policy", func(s *Schedule) { s.Missed = "lastest" }, "missed"},
		{"missed all without catch_up", func(s *Schedule) { s.Missed = MissedAll }, "catch_up"},
		{"a negative catch_up", func(s *Schedule) { s.CatchUp = -time.Hour }, "catch_up"},
		{"an unknown overlap policy", func(s *Schedule) { s.Overlap = "buffer-one" }, "overlap"},
		{"too large a buffer", func(s *Schedule) { s.Overlap, s.BufferLimit = OverlapBufferAll, 1001 }, "buffer_limit"},
		{"a negative buffer", func(s *Schedule) { s.BufferLimit = -1 }, "buffer_limit"},
		{"an unknown effect", func(s *Schedule) { s.Effect = "exactly_once" }, "effect"},
		{"a priority above 100", func(s *Schedule) { s.Priority = 101 }, "priority"},
		{"a priority below -100", func(s *Schedule) { s.Priority = -101 }, "priority"},
		{"negative max_failures", func(s *Schedule) { s.MaxFailures = -1 }, "max_failures"},
		{"a negative cool_down", func(s *Schedule) { s.CoolDown = -1 }, "cool_down"},
		{"a label name with a space", func(s *Schedule) { s.Labels = map[string]string{"a b": "c"} }, "labels"},
		{"a label value with the separator of keys", func(s *Schedule) { s.Labels = map[string]string{"a": "b\x01c"} }, "labels.a"},
		{"a label value with a final newline", func(s *Schedule) { s.Labels = map[string]string{"a": "b\n"} }, "labels.a"},
		{"an empty label value", func(s *Schedule) { s.Labels = map[string]string{"a": ""} }, "labels.a"},
		{"too long a label", func(s *Schedule) { s.Labels = map[string]string{"a": strings.Repeat("b", 64)} }, "labels.a"},
		{"a description with a newline", func(s *Schedule) { s.Description = "a\nb" }, "description"},
		{"a description that clears the screen", func(s *Schedule) { s.Description = "\x1b[2J" }, "description"},
		{"a description that turns text around", func(s *Schedule) { s.Description = "a\u202eb" }, "description"},
		{"a description that is no UTF-8", func(s *Schedule) { s.Description = "\xff" }, "description"},
		{"too long a description", func(s *Schedule) { s.Description = strings.Repeat("x", MaxDescription+1) }, "description"},
		{"metadata that is no JSON", func(s *Schedule) { s.Metadata = json.RawMessage(`{`) }, "metadata"},
		{"metadata with a bare control character", func(s *Schedule) { s.Metadata = json.RawMessage("\"\u009b\"") }, "metadata"},
		{"too much metadata", func(s *Schedule) { s.Metadata = json.RawMessage(`"` + strings.Repeat("x", MaxMetadata) + `"`) }, "metadata"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sound()
			tt.change(&s)
			all := fieldErrors(t, s.Validate())
			if len(all) != 1 || all[0].Field != tt.field || all[0].Allowed == "" {
				t.Errorf("Validate() = %v, want one *FieldError for %s", all, tt.field)
			}
			if _, err := Compile(s, []Calendar{{Name: "x", Dates: []string{"2026-01-01"}}}); err == nil {
				t.Error("Compile accepted it")
			}
		})
	}
}

// specs replaces the expression by specs.
func specs(all ...SpecDefinition) func(*Schedule) {
	return func(s *Schedule) { s.Expression, s.Specs = "", all }
}

func TestValidateAccepts(t *testing.T) {
	retries := 1000
	tests := []struct {
		name   string
		change func(s *Schedule)
	}{
		{"nothing but the necessary", func(*Schedule) {}},
		{"the smallest interval", specs(SpecDefinition{Every: MinInterval})},
		{"the largest interval", specs(SpecDefinition{Every: time.Duration(math.MaxInt64).Truncate(time.Millisecond)})},
		{"after alone", specs(SpecDefinition{After: time.Minute})},
		{"after with bounds and a limit", func(s *Schedule) { s.Expression, s.Starts, s.Limit = "@after 5m", time.Unix(9, 0), 3 }},
		{"H in an expression and in a window", func(s *Schedule) { s.Expression, s.Except = "H H * * *", []Window{{Cron: "* H * * *"}} }},
		{"@every in a spec", specs(SpecDefinition{Cron: "@every 90s"})},
		{"a zone as prefix only", func(s *Schedule) { s.Expression = "TZ=Europe/Berlin 0 2 * * *" }},
		{"a jitter longer than the interval", func(s *Schedule) { s.Jitter = 48 * time.Hour }},
		{"the extremes", func(s *Schedule) {
			s.MaxRetry, s.Timeout, s.Retention, s.Priority, s.BufferLimit = &retries, time.Second, MinRetention, -100, 1000
			s.Payload, s.Description = make([]byte, MaxPayload), strings.Repeat("x", MaxDescription)
		}},
		{"text in any script", func(s *Schedule) {
			s.Description, s.Metadata = "naïve 日本語 👩‍👩‍👧", json.RawMessage(`{"ключ":"a\nb"}`)
		}},
		{"a header value with spaces and letters of any script", func(s *Schedule) { s.Headers = map[string]string{"X-A": "Grüße, Jürgen"} }},
		{"a label with all that is allowed", func(s *Schedule) { s.Labels = map[string]string{"app.io/name": "A-1_b.c"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sound()
			tt.change(&s)
			if err := s.Validate(); err != nil {
				t.Errorf("Validate() = %v", err)
			}
			if _, err := Compile(s, nil); err != nil {
				t.Errorf("Compile() = %v", err)
			}
		})
	}
}

func TestValidateReportsEverythingAtOnce(t *testing.T) {
	s := Schedule{ID: "a b", Timezone: "Mars/Phobos", Expression: "@daily", Priority: 200, Missed: MissedAll}
	var fields []string
	for _, e := range fieldErrors(t, s.Validate()) {
		fields = append(fields, e.Field)
	}
	if got, want := strings.Join(fields, " "), "id type catch_up priority timezone"; got != want {
		t.Errorf("fields = %s, want %s", got, want)
	}
}

func TestErrorsShowNoControlCharacters(t *testing.T) {
	s := sound()
	s.Description, s.Queue, s.Expression = "\x1b[2J\n", "\x1b]0;x\a", "\x1b[31m * * * *"
	if text := s.Validate().Error(); strings.ContainsAny(text, "\x1b\a") {
		t.Errorf("%q", text)
	}
}

func TestCompileNeedsItsCalendars(t *testing.T) {
	s := sound()
	s.Except = []Window{{Calendar: "there"}, {Calendar: "missing"}}
	_, err := Compile(s, []Calendar{{Name: "there", Dates: []string{"2026-12-25"}}})
	if all := fieldErrors(t, err); len(all) != 1 || all[0].Field != "except[1].calendar" || all[0].Value != "missing" {
		t.Errorf("Compile() = %v", err)
	}
	_, err = Compile(s, []Calendar{{Name: "there", Dates: []string{"soon"}}, {Name: "missing", Weekly: []string{"Sat 00:00-Mon 00:00"}}})
	if all := fieldErrors(t, err); len(all) != 2 || all[0].Field != "calendar" || all[1].Field != "dates[0]" {
		t.Errorf("Compile() with a bad calendar = %v", err)
	}
}

func TestCalendarValidate(t *testing.T) {
	tests := []struct {
		name     string
		calendar Calendar
		field    string
	}{
		{"no name", Calendar{Dates: []string{"2026-12-25"}}, "name"},
		{"nothing in it", Calendar{Name: "x"}, "dates"},
		{"an unknown zone", Calendar{Name: "x", Timezone: "Mars/Phobos", Dates: []string{"2026-12-25"}}, "timezone"},
		{"a bad date", Calendar{Name: "x", Dates: []string{"25.12.2026"}}, "dates[0]"},
		{"a bad weekly window", Calendar{Name: "x", Weekly: []string{"Sat 00:00-Mon 06:00", "weekends"}}, "weekly[1]"},
		{"a bad cron window", Calendar{Name: "x", Cron: []string{"* 2-4 * * * * * *"}}, "cron[0]"},
		{"H, which has no schedule here", Calendar{Name: "x", Cron: []string{"H * * * *"}}, "cron[0] minute"},
		{"good", Calendar{Name: "x", Timezone: "Europe/Berlin", Dates: []string{"2026-12-24..2026-12-26"}, Weekly: []string{"Sat 00:00-Mon 06:00"}, Cron: []string{"* 2-4 * * *"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := fieldErrors(t, tt.calendar.Validate())
			if tt.field == "" && len(all) > 0 || tt.field != "" && (len(all) != 1 || all[0].Field != tt.field) {
				t.Errorf("Validate() = %v, want %q", all, tt.field)
			}
		})
	}
}

func TestValidateNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t)
		if err := s.Validate(); err != nil && err.Error() == "" {
			t.Fatal("an error without text")
		}
	})
}

func TestASpecThatSaysNoTimeNamesWhatIsNeeded(t *testing.T) {
	_, err := Compile(Schedule{ID: "a", Type: "t", Specs: []SpecDefinition{{}}}, nil)
	if all := fieldErrors(t, err); len(all) != 1 || all[0].Value != "nothing" || !strings.Contains(all[0].Allowed, "after (more than 0s)") {
		t.Errorf("Compile() = %v, want one refusal that says what a spec needs", err)
	}
}

func TestAnUnknownCalendarNamesTheNearest(t *testing.T) {
	s := Schedule{ID: "s", Type: "t", Expression: "@daily", Except: []Window{{Calendar: "holidays"}, {Calendar: "holidys"}}, Only: []Window{{Calendar: "q"}}}
	_, err := Compile(s, []Calendar{{Name: "holidays", Dates: []string{"2026-12-25"}}})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 2 {
		t.Fatalf("Compile() = %v, want two errors", err)
	}
	var first, second *FieldError
	if !errors.As(joined.Unwrap()[0], &first) || first.Field != "except[1].calendar" || first.Hint != `did you mean "holidays"?` {
		t.Errorf("the first is %v", joined.Unwrap()[0])
	}
	if !errors.As(joined.Unwrap()[1], &second) || second.Field != "only[0].calendar" || second.Hint != "" {
		t.Errorf("the second is %v", joined.Unwrap()[1])
	}
	if names := s.CalendarNames(); !slices.Equal(names, []string{"holidays", "holidys", "q"}) {
		t.Errorf("CalendarNames() = %v", names)
	}
}
