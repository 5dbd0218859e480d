package top

import (
	"fmt"
	"strings"
	"time"
)

// A line is a text with how it is painted, for the whole width.
type line struct {
	text  string
	style string // SGR parameters; "" is plain
}

const (
	bold    = "1"
	dim     = "2"
	reverse = "7"
	red     = "31"
	yellow  = "33"
)

// Lines of a frame that are not the list.
const (
	headerLines = 3
	footerLines = 1
)

// narrow reports whether there is no room for everything.
func (m *Model) narrow() bool { return m.width < 72 }

// bodyHeight is how many lines the list with its heading has.
func (m *Model) bodyHeight() int { return m.height - headerLines - 1 - footerLines }

// Frame renders the view: exactly the height of the terminal in lines, none
// wider than it.
func (m *Model) Frame() string {
	if m.width < MinWidth || m.height < MinHeight {
		return m.clip(fmt.Sprintf("too small: %dx%d, needs %dx%d", m.width, m.height, MinWidth, MinHeight), m.width)
	}
	lines := append(m.header(), m.tabs())
	body := m.body()
	if len(body) > m.bodyHeight() {
		body = body[:m.bodyHeight()]
	}
	lines = append(lines, body...)
	for len(lines) < m.height-footerLines {
		lines = append(lines, line{})
	}
	lines = append(lines, m.footer())
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		text := strings.TrimRight(m.clip(l.text, m.width), " ")
		if l.style == reverse {
			text += strings.Repeat(" ", m.width-m.options.Width(text))
		}
		if m.options.Color && l.style != "" && text != "" {
			text = "\x1b[" + l.style + "m" + text + "\x1b[0m"
		} else if l.style == reverse {
			text = strings.TrimRight(text, " ")
		}
		b.WriteString(text)
	}
	return b.String()
}

func (m *Model) header() []line {
	if !m.have {
		text := "waiting for the first answer"
		if m.problem != "" {
			text = m.problem
		}
		return []line{{"belfry top", bold}, {text, yellow}, {}}
	}
	s := m.snapshot
	clock := "2006-01-02 15:04:05 UTC"
	if m.narrow() {
		clock = "15:04:05 UTC"
	}
	first := fmt.Sprintf("belfry top  %s  %s%s", s.Where, m.now.UTC().Format(clock), skew(s.Ahead))
	second := fmt.Sprintf("%d active  %d paused  %d disabled   %d due  %d claimed  %d open  %d buffered", s.Active, s.Paused, s.Disabled, s.Due, s.Claimed, s.Open, s.Buffered)
	workers := fmt.Sprintf("%d workers", len(s.Workers))
	if len(s.Workers) == 1 {
		workers = "1 worker"
	}
	third := fmt.Sprintf("%.1f fires/s   late %s (p50 %s, p99 %s)   %s", m.rate.perSecond(), short(s.Lateness),
		short(m.late.quantile(0.5)), short(m.late.quantile(0.99)), workers)
	style := ""
	if len(s.Workers) == 0 || s.Lateness > 30*time.Second {
		style = red
	}
	if m.problem != "" {
		third, style = fmt.Sprintf("as of %s ago: %s", short(m.now.Sub(s.Now)), m.problem), yellow
	}
	return []line{{first, bold}, {second, ""}, {third, style}}
}

// leastSkew is what counts as two clocks that disagree; less is the way there
// and back, and would flicker.
const leastSkew = 10 * time.Millisecond

func skew(ahead time.Duration) string {
	switch {
	case ahead >= leastSkew:
		return " (yours is " + short(ahead) + " ahead)"
	case ahead <= -leastSkew:
		return " (yours is " + short(-ahead) + " behind)"
	}
	return ""
}

func (m *Model) tabs() line {
	var b strings.Builder
	for v := range views {
		format := "  %d %s "
		if v == m.view {
			format = " [%d %s]"
		}
		fmt.Fprintf(&b, format, v+1, viewNames[v])
	}
	if m.view == viewSchedules {
		fmt.Fprintf(&b, "   by %s", sorts[m.sort])
		if m.filter != "" || m.typing {
			fmt.Fprintf(&b, "   /%s", m.filter)
		}
		if m.snapshot.Partial {
			fmt.Fprintf(&b, "   next %d of %d", len(m.snapshot.Schedules), m.snapshot.Total)
		}
	}
	return line{b.String(), dim}
}

func (m *Model) footer() line {
	switch {
	case m.asking.Act != "":
		const question = " now, beside its planned firings? y/N"
		what := fmt.Sprintf("%s %s", m.asking.Act, m.asking.Schedule)
		return line{m.clip(what, m.width-len(question)) + question, reverse} // a long name must not push the question out
	case m.typing:
		return line{"filter: " + m.filter + "_   enter keeps it, esc drops it", reverse}
	case m.message != "":
		return line{m.message, reverse}
	}
	keys := []string{"tab view", "/ filter", "s sort", "p pause", "T trigger", "? help", "q quit"}
	if m.narrow() {
		return line{strings.Join(keys, " "), reverse}
	}
	return line{strings.Join(keys, "  "), reverse}
}

var helpLines = []string{
	"tab, 1-4     next view; schedules, workers, leases, runs",
	"j k g G      down, up, first, last; or arrow and page keys",
	"/            filter schedules by name, state or words",
	"s            sort schedules by next, name, state, fails",
	"enter        details of the schedule under the cursor",
	"p            pause it, or resume it",
	"T            trigger it: an extra firing now; asks first",
	"esc          leave help, details and filter",
	"q, ctrl+c    quit",
}

func (m *Model) body() []line {
	switch {
	case m.help:
		lines := []line{{"KEYS", bold}}
		for _, text := range helpLines {
			lines = append(lines, line{text, ""})
		}
		return lines
	case !m.have:
		return nil
	case m.details:
		return m.detailLines()
	}
	switch m.view {
	case viewWorkers:
		return m.list([]column{{"WORKER", max(20, m.width/4), false}, {"CLAIMS", 8, false}, {"SEEN", 8, false}, {"TYPES", 5, true},
			{"VERSION", max(10, m.width/8), true}, {"QUEUES", 0, false}}, m.workerRows())
	case viewLeases:
		return m.list([]column{{"LEASE", max(24, m.width/4), false}, {"OWNER", max(20, m.width/4), false}, {"UNTIL", 8, false}, {"TOKEN", 0, false}}, m.leaseRows())
	case viewRuns:
		return m.list([]column{{"SCHEDULE", max(20, m.width/4), false}, {"OUTCOME", 9, false}, {"ENDED", 8, false}, {"TOOK", 8, true},
			{"WORKER", max(12, m.width/8), true}, {"ERROR", 0, false}}, m.runRows())
	}
	return m.list([]column{{"SCHEDULE", max(20, m.width/4), false}, {"STATE", 9, false}, {"NEXT", 10, false}, {"LAST", max(14, min(20, m.width/6)), false},
		{"WHEN", 0, true}}, m.scheduleRows())
}

// A column has a width; 0 is the rest of the line. One for wide terminals is
// left out where there is no room.
type column struct {
	title string
	width int
	wide  bool
}

// A row is a line of a list.
type row struct {
	cells []string
	style string
}

// list renders the part of the rows around the cursor.
func (m *Model) list(columns []column, rows []row) []line {
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	lines := []line{{m.cells(columns, titles), bold}}
	room := m.bodyHeight() - 1
	cursor := max(0, min(m.cursor[m.view], len(rows)-1))
	first := max(0, min(cursor-room/2, len(rows)-room))
	for i := first; i < min(len(rows), first+room); i++ {
		l := line{m.cells(columns, rows[i].cells), rows[i].style}
		if i == cursor {
			l = line{l.text, reverse}
			if !m.options.Color {
				l.text = ">" + l.text[1:]
			}
		}
		lines = append(lines, l)
	}
	if len(rows) == 0 {
		lines = append(lines, line{" none", dim})
	}
	return lines
}

func (m *Model) cells(columns []column, texts []string) string {
	var b strings.Builder
	b.WriteByte(' ')
	for i, c := range columns {
		if c.wide && m.narrow() {
			continue
		}
		text := texts[i]
		if c.width > 0 {
			text = m.clip(text, c.width)
			text += strings.Repeat(" ", c.width-m.options.Width(text)+1)
		}
		b.WriteString(text)
	}
	return b.String()
}

func (m *Model) scheduleRows() []row {
	var rows []row
	for _, s := range m.schedules() {
		style := ""
		switch {
		case s.Bad:
			style = red
		case s.Paused:
			style = yellow
		}
		rows = append(rows, row{[]string{s.ID, s.State, m.until(s.fires()), s.Last, s.When}, style})
	}
	return rows
}

func (m *Model) workerRows() []row {
	var rows []row
	for _, w := range m.snapshot.Workers {
		claims := "yes"
		if !w.Claims {
			claims = "no"
		}
		if w.State != "" && w.State != "working" {
			claims = w.State // draining: it claims nothing
		}
		rows = append(rows, row{[]string{w.ID, claims, m.since(w.Seen), fmt.Sprint(w.Types), w.Version, w.Queues}, ""})
	}
	return rows
}

func (m *Model) leaseRows() []row {
	var rows []row
	for _, l := range m.snapshot.Leases {
		if l.Owner == "" {
			rows = append(rows, row{[]string{l.Name, "free", "-", "-"}, dim})
			continue
		}
		rows = append(rows, row{[]string{l.Name, l.Owner, m.until(l.Until), l.Token}, ""})
	}
	return rows
}

func (m *Model) runRows() []row {
	var rows []row
	for _, r := range m.snapshot.Runs {
		style := ""
		if r.Bad {
			style = red
		}
		rows = append(rows, row{[]string{r.Schedule, r.Outcome, m.since(r.Ended), short(r.Took), r.Worker, r.Error}, style})
	}
	return rows
}

func (m *Model) detailLines() []line {
	s, ok := m.current()
	if !ok {
		return nil
	}
	next := "-"
	if at := s.fires(); !at.IsZero() {
		next = at.UTC().Format("2006-01-02 15:04:05 UTC") + ", " + m.until(at)
	}
	lines := []line{{s.ID, bold}}
	for _, pair := range [][2]string{{"state", s.State}, {"when", s.When}, {"next", next}, {"last", s.Last}, {"fails", fmt.Sprint(s.Fails)}, {"error", s.Error}} {
		text := fmt.Sprintf("  %-6s %s", pair[0], pair[1])
		for m.options.Width(text) > m.width { // the tail of a long text goes on
			head := m.clip(text, m.width)
			head = strings.TrimSuffix(head, "…")
			lines = append(lines, line{head, ""})
			text = strings.Repeat(" ", 9) + text[len(head):]
		}
		lines = append(lines, line{text, ""})
	}
	return append(lines, line{"  esc goes back; admin schedule get " + s.ID + " says more", dim})
}

// until is a countdown.
func (m *Model) until(t time.Time) string {
	switch d := t.Sub(m.now); {
	case t.IsZero():
		return "-"
	case d <= -time.Second:
		return short(-d) + " late"
	case d < time.Second:
		return "now"
	default:
		return short(d)
	}
}

func (m *Model) since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return short(max(0, m.now.Sub(t)))
}

// short renders a duration in at most six characters or so.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", max(0, d.Milliseconds()))
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Truncate(100*time.Millisecond).Seconds()), ".0") + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// clip cuts a text to a number of columns.
func (m *Model) clip(text string, columns int) string {
	if m.options.Width(text) <= columns {
		return text
	}
	end := 0
	for i := range text {
		if m.options.Width(text[:i]) > columns-1 {
			break
		}
		end = i
	}
	return text[:end] + "…"
}
