package top

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The least size in which there is a frame.
const (
	MinWidth  = 60
	MinHeight = 15
)

type view int

const (
	viewSchedules view = iota
	viewWorkers
	viewLeases
	viewRuns
	views
)

var viewNames = [views]string{"schedules", "workers", "leases", "runs"}

// The orders of schedules.
var sorts = []string{"next", "name", "state", "fails"}

// maxFilter bounds the filter, in bytes.
const maxFilter = 64

// A Request is what a key asks of whoever drives the model.
type Request struct {
	Quit     bool
	Act      Act // "" is nothing
	Schedule string
}

// Options configure a Model. Width is needed.
type Options struct {
	Width func(text string) int // columns that a text takes in a terminal
	Color bool
	Sort  string // one of next, name, state, fails; "" is next
}

// A Model is the state of the view. Get one from [New].
type Model struct {
	options       Options
	width, height int
	snapshot      Snapshot
	have          bool
	problem       string // why there is no newer snapshot
	message       string // what the last act did
	readAt        time.Time
	now           time.Time // on the store's clock
	view          view
	cursor        [views]int
	selected      string // schedule under the cursor, which stays when rows move
	sort          int
	filter        string
	typing        bool
	asking        Request // what is asked for consent; no act: nothing is
	details, help bool
	rate          rate
	late          lateness
}

// New returns a model of 80 by 24 without data.
func New(options Options) *Model {
	m := &Model{options: options, width: 80, height: 24}
	m.sort = max(0, slices.Index(sorts, options.Sort))
	return m
}

// Sorts are the values of Options.Sort.
func Sorts() []string { return slices.Clone(sorts) }

// Resize tells the size of the terminal.
func (m *Model) Resize(width, height int) { m.width, m.height = width, height }

// Set gives the model a new snapshot, or says why there is none. At is when it
// was read, on any clock that [Model.Tick] uses too.
func (m *Model) Set(s Snapshot, problem string, at time.Time) {
	if m.problem = problem; problem != "" {
		return
	}
	if m.have {
		m.rate.add(s.Fired-m.snapshot.Fired, at.Sub(m.readAt))
	}
	m.late.add(s.Lateness)
	m.snapshot, m.have, m.readAt, m.now = s, true, at, s.Now
	m.follow()
}

// Tick tells the time, so that countdowns go on between snapshots.
func (m *Model) Tick(at time.Time) {
	if m.have && at.After(m.readAt) {
		m.now = m.snapshot.Now.Add(at.Sub(m.readAt))
	}
}

// Done tells what an act did.
func (m *Model) Done(message string) { m.message = message }

// follow puts the cursor on the schedule that it was on.
func (m *Model) follow() {
	rows := m.schedules()
	if i := slices.IndexFunc(rows, func(s Schedule) bool { return s.ID == m.selected }); i >= 0 {
		m.cursor[viewSchedules] = i
	}
	m.clamp()
}

func (m *Model) clamp() {
	n := m.rows()
	m.cursor[m.view] = max(0, min(m.cursor[m.view], n-1))
	if rows := m.schedules(); m.view == viewSchedules && len(rows) > 0 {
		m.selected = rows[m.cursor[viewSchedules]].ID
	}
}

func (m *Model) rows() int {
	switch m.view {
	case viewWorkers:
		return len(m.snapshot.Workers)
	case viewLeases:
		return len(m.snapshot.Leases)
	case viewRuns:
		return len(m.snapshot.Runs)
	}
	return len(m.schedules())
}

// schedules are the rows that the filter leaves, in order.
func (m *Model) schedules() []Schedule {
	var rows []Schedule
	needle := strings.ToLower(m.filter)
	for _, s := range m.snapshot.Schedules {
		if needle == "" || strings.Contains(strings.ToLower(s.ID+" "+s.State+" "+s.When), needle) {
			rows = append(rows, s)
		}
	}
	slices.SortStableFunc(rows, func(a, b Schedule) int { return cmp.Or(m.compare(a, b), cmp.Compare(a.ID, b.ID)) })
	return rows
}

func (m *Model) compare(a, b Schedule) int {
	switch sorts[m.sort] {
	case "next":
		first, second := a.fires(), b.fires()
		if first.IsZero() != second.IsZero() {
			return map[bool]int{true: 1, false: -1}[first.IsZero()]
		}
		return first.Compare(second)
	case "state":
		return cmp.Compare(a.State, b.State)
	case "fails":
		return cmp.Compare(b.Fails, a.Fails)
	}
	return 0
}

// Key handles a key by the name that bubbletea gives it.
func (m *Model) Key(key string) Request {
	switch {
	case key == "ctrl+c":
		return Request{Quit: true}
	case m.typing:
		m.typeKey(key)
		return Request{}
	case m.asking.Act != "":
		return m.answer(key)
	}
	m.message = ""
	switch key {
	case "q":
		return Request{Quit: true}
	case "esc":
		m.help, m.details, m.filter = false, false, ""
	case "?":
		m.help = !m.help
	case "/":
		m.typing, m.view, m.details = true, viewSchedules, false
	case "p", "T":
		return m.act(key)
	default:
		m.move(key)
	}
	m.clamp()
	return Request{}
}

// move handles the keys that only change what is seen.
func (m *Model) move(key string) {
	page := max(1, m.bodyHeight()-1)
	steps := map[string]int{"j": 1, "down": 1, "k": -1, "up": -1, "pgdown": page, "pgup": -page, "g": -1 << 20, "home": -1 << 20, "G": 1 << 20, "end": 1 << 20}
	switch key {
	case "tab":
		m.view, m.details = (m.view+1)%views, false
	case "shift+tab":
		m.view, m.details = (m.view+views-1)%views, false
	case "1", "2", "3", "4":
		m.view, m.details = view(key[0]-'1'), false
	case "s":
		m.sort = (m.sort + 1) % len(sorts)
		m.follow()
	case "enter":
		m.details = m.view == viewSchedules && !m.details && m.rows() > 0
	default:
		m.cursor[m.view] += steps[key]
	}
}

// typeKey edits the filter.
func (m *Model) typeKey(key string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	default:
		if key == "space" {
			key = " "
		}
		if utf8.RuneCountInString(key) == 1 && len(m.filter)+len(key) <= maxFilter {
			m.filter += key
		}
	}
	m.cursor[viewSchedules] = 0
	m.clamp()
}

// act asks for what a key means for the schedule under the cursor.
func (m *Model) act(key string) Request {
	s, ok := m.current()
	if !ok {
		m.message = "choose a schedule first: 1, then j and k"
		return Request{}
	}
	switch {
	case key == "T":
		m.asking = Request{Act: ActTrigger, Schedule: s.ID}
		return Request{}
	case s.Paused:
		return Request{Act: ActResume, Schedule: s.ID}
	}
	return Request{Act: ActPause, Schedule: s.ID}
}

// answer handles the key after a question. Anything but y is no. The answer is
// for the schedule that was asked about, wherever the cursor went since.
func (m *Model) answer(key string) Request {
	asked := m.asking
	m.asking = Request{}
	if key != "y" && key != "Y" {
		m.message = "declined; nothing was changed"
		return Request{}
	}
	return asked
}

// current is the schedule under the cursor.
func (m *Model) current() (Schedule, bool) {
	rows := m.schedules()
	if m.view != viewSchedules || len(rows) == 0 {
		return Schedule{}, false
	}
	return rows[min(m.cursor[viewSchedules], len(rows)-1)], true
}

// A rate is firings in a second over the last snapshots.
type rate struct {
	fired []int64
	took  []time.Duration
}

// kept is over how many snapshots rates and quantiles go.
const kept = 60

func (r *rate) add(fired int64, took time.Duration) {
	if took <= 0 || fired < 0 { // the clock stood still, or a schedule was deleted
		return
	}
	r.fired, r.took = append(r.fired, fired), append(r.took, took)
	if len(r.fired) > kept {
		r.fired, r.took = r.fired[1:], r.took[1:]
	}
}

func (r *rate) perSecond() float64 {
	var fired int64
	var took time.Duration
	for i := range r.fired {
		fired, took = fired+r.fired[i], took+r.took[i]
	}
	if took == 0 {
		return 0
	}
	return float64(fired) / took.Seconds()
}

// lateness keeps the last ones for quantiles.
type lateness []time.Duration

func (l *lateness) add(d time.Duration) {
	if *l = append(*l, max(0, d)); len(*l) > kept {
		*l = (*l)[1:]
	}
}

// quantile returns the value that a share of all does not exceed.
func (l lateness) quantile(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
