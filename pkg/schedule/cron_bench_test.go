package schedule

import (
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
)

// benchZone is where the benchmarks are measured: a zone with clock changes
// whose dates come from a rule, which is the slow case.
const benchZone = "Europe/Berlin"

var benchFrom = time.Date(2026, 6, 10, 12, 34, 56, 0, time.UTC)

func BenchmarkNext(b *testing.B) {
	for _, test := range []struct{ name, expression, zone string }{
		{"every5min", "*/5 * * * *", benchZone},
		{"every5minUTC", "*/5 * * * *", "UTC"},
		{"daily", "30 2 * * *", benchZone},
		{"weekdays", "0 9 * * 1-5", benchZone},
		{"yearly", "0 0 1 1 *", benchZone},
		{"leapMonday", "0 0 29 2 +MON", benchZone},
		{"leapMondayOr", "0 0 29 2 MON", benchZone},
		{"lastWeekday", "0 0 LW,L-3,15W 2 FRI#5", benchZone},
	} {
		location, err := time.LoadLocation(test.zone)
		if err != nil {
			b.Fatal(err)
		}
		spec, err := ParseCron(test.expression, location)
		if err != nil {
			b.Fatal(err)
		}
		from := benchFrom.In(location)
		b.Run(test.name+"/belfry", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				spec.Next(from)
			}
		})
		other, err := robfig.ParseStandard(test.expression)
		if err != nil {
			continue // a construct that robfig/cron does not have
		}
		b.Run(test.name+"/robfig", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				other.Next(from)
			}
		})
	}
}

func BenchmarkPrev(b *testing.B) {
	location, err := time.LoadLocation(benchZone)
	if err != nil {
		b.Fatal(err)
	}
	for _, expression := range []string{"*/5 * * * *", "0 0 29 2 +MON"} {
		spec, err := ParseCron(expression, location)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(expression, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				spec.Prev(benchFrom)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, expression := range []string{"*/5 * * * *", "0 9 * * MON-FRI", "0,15,30-45/5 9-17 1,15 JAN-JUN *",
		"0 0,15,30-45/5 9-17 LW,15W JAN-JUN MON#1,FRIL 2026-2030"} {
		b.Run(expression+"/belfry", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseCron(expression, time.UTC); err != nil {
					b.Fatal(err)
				}
			}
		})
		if _, err := robfig.ParseStandard(expression); err != nil {
			continue // a construct that robfig/cron does not have
		}
		b.Run(expression+"/robfig", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := robfig.ParseStandard(expression); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	// The longest search: every kind of year, and none has a fifth Tuesday on
	// the 1st.
	b.Run("never/belfry", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseCron("0 0 1 * +TUE#5", time.UTC); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCount(b *testing.B) {
	spec := mustCron(b, "*/5 9-17 * * 1-5", benchZone)
	b.Run("tenYears", func(b *testing.B) {
		for b.Loop() {
			spec.countBetween(benchFrom, benchFrom.AddDate(10, 0, 0), 1<<30)
		}
	})
}

// BenchmarkZones walks a spec through a year in which every search meets clock
// changes that are not cached.
func BenchmarkZones(b *testing.B) {
	for _, expression := range []string{"*/5 * * * *", "30 2 * * *"} {
		spec := mustCron(b, expression, "America/New_York")
		b.Run(expression, func(b *testing.B) {
			at := time.Date(2044, 1, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				next, _ := spec.Next(at)
				if at = next; at.Year() > 2090 {
					at = time.Date(2044, 1, 1, 0, 0, 0, 0, time.UTC)
				}
			}
		})
	}
}
