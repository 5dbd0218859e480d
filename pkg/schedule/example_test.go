package schedule_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

func ExampleParse() {
	for _, expression := range []string{"0 2 * * MON-FRI", "90s", "once:2026-12-24T09:00:00+01:00"} {
		spec, err := schedule.Parse(expression)
		if err != nil {
			fmt.Println(err)
			continue
		}
		next, _ := spec.Next(time.Date(2026, 6, 6, 12, 0, 0, 0, time.UTC))
		fmt.Println(spec, "->", next.Format(time.RFC3339))
	}
	// Output:
	// 0 2 * * 1-5 -> 2026-06-08T02:00:00Z
	// @every 1m30s -> 2026-06-06T12:01:30Z
	// once:2026-12-24T08:00:00Z -> 2026-12-24T08:00:00Z
}

func ExampleParseDuration() {
	for _, text := range []string{"1h30m", "P1DT2H", "2w", "1mo"} {
		d, err := schedule.ParseDuration(text)
		if err != nil {
			fmt.Println(err.(*schedule.FieldError).Hint)
			continue
		}
		fmt.Println(text, "is", schedule.FormatDuration(d))
	}
	// Output:
	// 1h30m is 1h30m
	// P1DT2H is 1d2h
	// 2w is 2w
	// months and years have no fixed length; use a cron expression
}

func ExampleParseInstant() {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) // a Monday
	for _, text := range []string{"+90m", "tomorrow 09:00", "fri 9am", "2026-12-24"} {
		at, err := schedule.ParseInstant(text, now, time.UTC)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(text, "is", at.Format("Mon 2006-01-02 15:04 MST"))
	}
	// Output:
	// +90m is Mon 2026-06-01 13:30 UTC
	// tomorrow 09:00 is Tue 2026-06-02 09:00 UTC
	// fri 9am is Fri 2026-06-05 09:00 UTC
	// 2026-12-24 is Thu 2026-12-24 00:00 UTC
}

func ExampleCompile() {
	definition := schedule.Schedule{
		ID: "nightly-report", Type: "report:build", Expression: "0 2 * * *", Timezone: "Europe/Berlin",
		Except: []schedule.Window{{Calendar: "holidays-de"}},
	}
	holidays := schedule.Calendar{Name: "holidays-de", Timezone: "Europe/Berlin", Dates: []string{"2026-12-24..2026-12-26"}}
	compiled, err := schedule.Compile(definition, []schedule.Calendar{holidays})
	if err != nil {
		fmt.Println(err)
		return
	}
	next, _ := compiled.Next(time.Date(2026, 12, 23, 12, 0, 0, 0, time.UTC))
	fmt.Println(next.Format(time.RFC3339))
	// Output: 2026-12-27T02:00:00+01:00
}

func ExampleSchedule_Validate() {
	definition := schedule.Schedule{ID: "nightly report", Type: "report:build", Expression: "61 2 * * *"}
	err := definition.Validate()
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var field *schedule.FieldError
		if errors.As(e, &field) {
			fmt.Printf("%s: %q\n", field.Field, field.Value)
		}
	}
	// Output:
	// id: "nightly report"
	// expression minute: "61"
}

func ExampleSchedule_UnmarshalJSON() {
	var definition schedule.Schedule
	err := json.Unmarshal([]byte(`{"id": "a", "type": "t", "expression": "5m", "max-retry": 1}`), &definition)
	var field *schedule.FieldError
	if errors.As(err, &field) {
		fmt.Println(field.Field+":", field.Hint)
	}
	// Output: max-retry: did you mean "max_retry"?
}

func ExamplePlan() {
	compiled, err := schedule.Compile(schedule.Schedule{ID: "tick", Type: "tick", Expression: "10m"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 6, 1, 10, 0, 0, 0, time.UTC)
	onTime := schedule.Plan(compiled, schedule.PlanInput{ScheduledAt: at, Now: at})
	fmt.Println("push:", onTime.Push, "next:", onTime.Next.Format(time.TimeOnly))

	late := schedule.Plan(compiled, schedule.PlanInput{ScheduledAt: at, Now: at.Add(2 * time.Hour)})
	fmt.Println("push:", late.Push, "coalesced with:", late.Range.Count, "next:", late.Next.Format(time.TimeOnly))
	// Output:
	// push: true next: 10:10:00
	// push: false coalesced with: 11 next: 12:00:00
}

func ExamplePlanPut() {
	compile := func(expression string) *schedule.Compiled {
		compiled, err := schedule.Compile(schedule.Schedule{ID: "tick", Type: "tick", Expression: expression}, nil)
		if err != nil {
			panic(err)
		}
		return compiled
	}
	now := time.Date(2026, 6, 1, 10, 5, 0, 0, time.UTC)
	plan := schedule.PlanPut(compile("10m"), now.Add(-5*time.Minute), compile("1h"), now)
	fmt.Println("next:", plan.Next.Format(time.TimeOnly), "superseded:", plan.Superseded.Count)
	// Output: next: 11:00:00 superseded: 1
}
