package schedule

import (
	"slices"
	"strings"
	"time"
)

// Explain says in one line of English when a spec fires, such as "At 02:30 on
// weekdays, Europe/Berlin". Everything that the spec says is in it.
func Explain(spec Spec) string {
	switch s := spec.(type) {
	case *cronSpec:
		return s.explain()
	case everySpec:
		text := "Every " + FormatDuration(time.Duration(s.period)*time.Millisecond)
		if s.phase != 0 {
			text += ", counted from " + formatInstant(time.UnixMilli(s.phase))
		}
		return text
	case afterSpec:
		return FormatDuration(time.Duration(s.delay)*time.Millisecond) + " after the end of each run"
	case atSpec:
		return s.explain()
	case unionSpec:
		parts := make([]string, len(s.parts))
		for i, part := range s.parts {
			parts[i] = Explain(part)
		}
		return strings.Join(parts, "; and ")
	}
	return spec.String()
}

// maxListed bounds how many instants an explanation lists.
const maxListed = 6

func (s atSpec) explain() string {
	listed := s.millis[:min(len(s.millis), maxListed)]
	words := make([]string, len(listed))
	for i, ms := range listed {
		words[i] = time.UnixMilli(ms).In(s.location).Format("2006-01-02 15:04:05.999 -07:00")
	}
	if more := len(s.millis) - len(listed); more > 0 {
		words = append(words, plural(int64(more), "later time"))
	}
	return "Once at " + joinWords(words, "and")
}

// Warnings says what about a spec may not be what was meant, in sentences for
// people: both day fields restricted, every minute of an hour, a day that some
// months lack, times that clock changes skip or repeat. Nil means nothing.
func Warnings(spec Spec) []string {
	var warnings []string
	switch s := spec.(type) {
	case *cronSpec:
		return s.warnings()
	case unionSpec:
		for _, part := range s.parts {
			for _, warning := range Warnings(part) {
				if !slices.Contains(warnings, warning) {
					warnings = append(warnings, warning)
				}
			}
		}
	}
	return warnings
}

// RunsPerDay returns the least and the most scheduled times of one civil day,
// clock changes aside. A spec that depends on its runs, such as a fixed delay,
// has no least.
func RunsPerDay(spec Spec) (least, most int) {
	const day = secondsPerDay * 1000
	switch s := spec.(type) {
	case *cronSpec:
		switch {
		case s.never:
			return 0, 0
		case s.matchesEveryDay():
			return int(s.perDay), int(s.perDay)
		}
		return 0, int(s.perDay)
	case everySpec:
		return int(day / s.period), int((day + s.period - 1) / s.period)
	case afterSpec:
		return 0, int((day + s.delay - 1) / s.delay)
	case atSpec:
		dates := map[int64]int{}
		for _, ms := range s.millis {
			at := time.UnixMilli(ms).In(s.location)
			dates[daysFromCivil(int64(at.Year()), int(at.Month()), at.Day())]++
			most = max(most, dates[daysFromCivil(int64(at.Year()), int(at.Month()), at.Day())])
		}
		return 0, most
	case unionSpec:
		for _, part := range s.parts {
			low, high := RunsPerDay(part)
			least, most = max(least, low), most+high
		}
	}
	return least, most
}
