package admincli

import (
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// explained is how many times explain shows in each direction.
const explained = 3

func (s *session) cronExplain(f *cronFlags, text string) error {
	c, err := f.parse(s, text)
	if err != nil {
		return err
	}
	v := explainJSON{Expression: text, Words: schedule.Explain(c.spec), Warnings: notNil(schedule.Warnings(c.spec)),
		ClockChanges: notNil(clockLines(c.spec, c.from)), Next: []*string{}, Prev: []*string{}}
	v.PerDayLeast, v.PerDayMost = schedule.RunsPerDay(c.spec)
	sheet := &sheet{}
	sheet.add("per day", perDay(v.PerDayLeast, v.PerDayMost))
	walk := func(name string, step func(time.Time) (time.Time, bool), list *[]*string) {
		var lines []string
		for at := c.from; len(*list) < explained; {
			next, ok := step(at)
			if !ok {
				break
			}
			in := s.location(next.Location())
			*list, lines, at = append(*list, iso(next, in)), append(lines, when(next, s.env.Now(), in)), next
		}
		if len(lines) == 0 {
			lines = []string{"never"}
		}
		sheet.add(name, lines...)
	}
	walk("next", c.spec.Next, &v.Next)
	walk("previous", c.spec.Prev, &v.Prev)
	sheet.add("clock changes", v.ClockChanges...)
	sheet.add("careful", v.Warnings...)
	return s.emit(view{data: v, names: []string{c.spec.String()}, table: func(w io.Writer) {
		fmt.Fprintln(w, visible(v.Words))
		sheet.write(w)
	}})
}

func perDay(least, most int) string {
	switch least {
	case most:
		return count(most, "time")
	case 0:
		return "at most " + count(most, "time")
	}
	return fmt.Sprintf("%d to %s", least, count(most, "time"))
}
