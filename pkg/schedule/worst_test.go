package schedule

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The worst cases of Next and Prev. A seeded search draws schedules of the
// whole dialect, keeps what costs most and changes it here and there. What it
// found is kept below by name, so that every later version is measured against
// it.

// worstLimit is what one Next or Prev may cost, whatever the schedule. It is
// measured by benchmarks; tests count work instead.
const worstLimit = time.Millisecond

// A worst is a schedule and the instant from which it is searched.
type worst struct {
	name       string
	definition Schedule
	from       string
}

// worstCases are those that the search found, and the hardest single
// expressions that are known.
var worstCases = []worst{
	{"day of a year of 28", Schedule{Timezone: "Europe/Berlin", Expression: "0 0 29 2 +MON"}, "1971-03-01T00:00:00Z"},
	{"a day of 31 in 400 years", Schedule{Timezone: "Europe/Berlin", Expression: "0 0 0 L-30W 1-12/11 +SUN"}, "1971-03-01T00:00:00Z"},
	{"found: years and a zone", Schedule{Timezone: "Asia/Beirut", Expression: "32 1 12-12/4 1W,L-30W */3 +2 2060-2093/12"}, "2075-10-26T06:28:14Z"},
	{"found: windows that never meet", Schedule{Timezone: "Asia/Jerusalem", Expression: "47 46-6 6,9-6,6 L-30,1,1W * +*/1",
		Except: []Window{{Cron: "*/51,43 * */9,*,0-8/9 H H,10 +H,*"}, {Cron: "55 37-12/14,37-12/14 1,H/16 L-4W * 6#5"},
			{Cron: "8 23-39 * 26-2 * +6-6"}, {Cron: "H/20 43 */4 L-20 H 2"}},
		Only: []Window{{Cron: "51-25/42 21-21/41,H/41 H/4,H/4 * 3,* 0-5,H"}}}, "2056-11-30T21:57:08Z"},
	{"found: only of three that never meet", Schedule{Timezone: "Asia/Yakutsk", Expression: "8 H 18-15/13 8 *,*/12 +5-1",
		Except: []Window{{Cron: "*/14 * 14-20,14 LW 2,7,H +2-3,H"}},
		Only:   []Window{{Cron: "27,27-54/59 H H 1W * +4L"}, {Cron: "H,H/3 H/22 4-3 29,L-30W */3 2L"}, {Cron: "22-43,* H H/9 LW,L-30W * 1#5 2000"}}}, "1981-03-31T04:27:15Z"},
	{"found: far from every window", Schedule{Timezone: "Pacific/Kwajalein", Expression: "7,*/12 2 12-4/7 31,1W 2 +5-5/3",
		Except: []Window{{Cron: "* * * 29 * +5#2"}, {Cron: "* H,H * 16 H 3L,3-1/7"}, {Cron: "*/35,H 44 16,*/18 17 * +6#5"}}}, "2009-10-18T13:42:49Z"},
	{"found: rare, in a zone with a rule", Schedule{Timezone: "America/Thule", Expression: "51 32-58,*,H 7-10,7-10 L-30W,16-16/17 * +1",
		Except: []Window{{Cron: "* * H/3 L-30W,L-9,*/12 * +1L,1#2"}, {Cron: "16 */31 23-11 24-28/29 * 4-1,H"}},
		Only:   []Window{{Cron: "33-35 * * 6-18,LW H/11 5-3"}, {Cron: "8-55/49,*/49 46 */7 18,L-30W,LW *,8-1,8-1/12 2 2024"}}}, "2068-01-01T20:42:48Z"},
	{"every second excluded", Schedule{Timezone: "America/New_York", Expression: "* * * * * *",
		Except: []Window{{Cron: "*/2 * * * * *"}, {Cron: "1-59/2 * * * * *"}}}, "2026-11-01T05:30:00Z"},
}

func (w worst) compile(t testing.TB) (*Compiled, time.Time) {
	t.Helper()
	w.definition.ID, w.definition.Type = "worst", "t"
	c, err := Compile(w.definition, nil)
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	return c, instantAt(t, w.from)
}

// The work of the worst cases is bounded, in steps.
func TestWorstCasesAreBounded(t *testing.T) {
	for _, w := range worstCases {
		c, from := w.compile(t)
		for _, back := range []bool{false, true} {
			var e effort
			if t1, ok := seek(c.spec, from, back, &e); ok && t1.After(from) == back {
				t.Errorf("%s: the search from %s, back %t, finds %s", w.name, from, back, t1)
			}
			if e.steps > maxSearchSteps {
				t.Errorf("%s, back %t: %d steps for one time, want at most %d", w.name, back, e.steps, maxSearchSteps)
			}
		}
		counted := *c
		counter := &stepsSpec{Spec: c.spec}
		counted.spec = counter
		counted.Next(from)
		counted.Prev(from)
		if counter.calls > 2*maxSteps {
			t.Errorf("%s: %d times looked at, want at most %d each way", w.name, counter.calls, maxSteps)
		}
	}
}

// A stepsSpec counts the calls of a spec.
type stepsSpec struct {
	Spec
	calls int
}

func (s *stepsSpec) Next(after time.Time) (time.Time, bool) {
	s.calls++
	return s.Spec.Next(after)
}

func (s *stepsSpec) Prev(before time.Time) (time.Time, bool) {
	s.calls++
	return s.Spec.Prev(before)
}

// A count goes through a union in order, and searches a part only when its turn
// has come: with as many parts as there may be it asked every one for every
// instant before, up to 640,000 times, which took a quarter of a second.
func TestCountOfManyPartsIsBounded(t *testing.T) {
	definition := Schedule{ID: "many", Type: "t", Specs: []SpecDefinition{{Cron: "* * * * * *"}}}
	for i := range maxParts - 1 {
		definition.Specs = append(definition.Specs, SpecDefinition{Cron: fmt.Sprintf("%d 30 12 29 2 +MON", i%60+i/60)})
	}
	for name, except := range map[string][]Window{"plain": nil, "with windows": {{Cron: "* */2 * * * *"}}} {
		definition.Except = except
		c, err := Compile(definition, nil)
		if err != nil {
			t.Fatal(err)
		}
		union, ok := c.spec.(unionSpec)
		if !ok || len(union.parts) < 60 {
			t.Fatalf("the spec has %d parts", len(union.parts))
		}
		var counters []*stepsSpec
		for i, part := range union.parts {
			counters = append(counters, &stepsSpec{Spec: part})
			union.parts[i] = counters[i]
		}
		from := instantAt(t, "2026-01-01T00:00:00Z")
		if n, ok := c.CountBetween(from, from.Add(90*time.Minute)); !ok || n != map[bool]int64{true: 5401, false: 2700}[except == nil] {
			t.Errorf("%s: an hour and a half has %d, %v", name, n, ok)
		}
		if n, ok := c.CountBetween(from, from.AddDate(1, 0, 0)); ok {
			t.Errorf("%s: a year has %d, want too many", name, n)
		}
		calls := 0
		for _, counter := range counters {
			calls += counter.calls
		}
		if most := 2 * (maxCounted + 2*maxParts); calls > most {
			t.Errorf("%s: %d searches of parts, want at most %d", name, calls, most)
		}
	}
}

// BenchmarkWorst measures the worst cases; the fastest run of each must stay
// below a millisecond, on a machine that does something else too.
func BenchmarkWorst(b *testing.B) {
	for _, w := range worstCases {
		c, from := w.compile(b)
		for name, run := range map[string]func(time.Time) (time.Time, bool){"next": c.Next, "prev": c.Prev} {
			b.Run(w.name+"/"+name, func(b *testing.B) {
				fastest := time.Hour
				for b.Loop() {
					began := time.Now()
					run(from)
					fastest = min(fastest, time.Since(began))
				}
				if fastest > worstLimit {
					b.Errorf("%s, want at most %s", fastest, worstLimit)
				}
			})
		}
	}
}

// A breeder draws schedules and instants.
type breeder struct {
	*rand.Rand
	zones []*time.Location
}

func (b breeder) pick(texts ...string) string { return texts[b.IntN(len(texts))] }

// field draws one field as text; hard fields match rarely.
func (b breeder) field(f *cronField) string {
	value := func() int { return f.min + b.IntN(f.last-f.min+1) }
	low, high := value(), value()
	if f.max == maxCronYear && high < low {
		low, high = high, low
	}
	step := 1 + b.IntN(f.maxStep())
	forms := []string{"*", fmt.Sprint(low), fmt.Sprint(high), fmt.Sprintf("%d-%d", low, high), fmt.Sprintf("*/%d", step), fmt.Sprintf("%d-%d/%d", low, high, step)}
	switch f.days {
	case 'm':
		forms = append(forms, "31", "29", "L", "LW", fmt.Sprintf("L-%d", low-1), fmt.Sprintf("L-%dW", low-1), fmt.Sprintf("%dW", low), "H", "L-30W", "1W")
	case 'w':
		forms = append(forms, fmt.Sprintf("%dL", low), fmt.Sprintf("%d#%d", low, 1+step%5), fmt.Sprintf("%d#5", low), "H")
	}
	if f.hashMax > 0 && f.days == 0 {
		forms = append(forms, "H", "H/"+fmt.Sprint(step))
	}
	out := b.pick(forms...)
	for b.IntN(3) == 0 {
		out += "," + b.pick(forms...)
	}
	return out
}

// cron draws an expression of seven fields, as words.
func (b breeder) cron() []string {
	words := make([]string, len(cronFields))
	for i := range words {
		words[i] = b.word(i)
	}
	return words
}

// crons draws n expressions: each anew, or a family of one that differs in a
// field or two, so that all of them are as hard.
func (b breeder) crons(n int) [][]string {
	var all [][]string
	family := b.IntN(2) == 0
	for range n {
		words := b.cron()
		if family && len(all) > 0 {
			words = slices.Clone(all[0])
			for range 1 + b.IntN(2) {
				words[b.IntN(3)] = fmt.Sprint(b.IntN(24)) // of a second, a minute or an hour
			}
		}
		all = append(all, words)
	}
	return all
}

func (b breeder) word(i int) string {
	switch {
	case i == fieldYear && b.IntN(3) > 0, i != fieldDay && i != fieldWeekday && b.IntN(4) == 0:
		return "*"
	case i == fieldWeekday && b.IntN(2) == 0:
		return "+" + b.field(&cronFields[i])
	}
	return b.field(&cronFields[i])
}

// text makes a cron line of the words: without a year field when any year
// will do, sometimes without seconds.
func (b breeder) text(words []string) string {
	if words[fieldYear] == "*" {
		words = words[:6]
	}
	return strings.Join(words, " ")
}

func (b breeder) zone() string { return b.zones[b.IntN(len(b.zones))].String() }

// instant draws an instant: any, or close to a clock change of the zone.
func (b breeder) instant(location *time.Location) time.Time {
	at := time.Unix(b.Int64N(200*365*secondsPerDay)-50*365*secondsPerDay, 0).In(location)
	if b.IntN(2) == 0 {
		if _, end := at.ZoneBounds(); !end.IsZero() {
			at = end.Add(time.Duration(b.Int64N(2*maxShift)-maxShift) * time.Second)
		}
	}
	return at.UTC()
}

// A candidate is a schedule under search with what it costs.
type candidate struct {
	crons  [][]string // united
	except [][]string // cron windows
	only   [][]string
	zone   string
	from   time.Time
}

// A size is how much of a definition is drawn.
type size int

const (
	single size = iota // one expression
	some               // a few united, with a few windows
	many               // as much as a definition may hold
)

func (b breeder) candidate(how size) candidate {
	c := candidate{crons: [][]string{b.cron()}, zone: b.zone()}
	switch how {
	case some:
		for b.IntN(2) == 0 && len(c.crons) < 4 {
			c.crons = append(c.crons, b.cron())
		}
		for b.IntN(3) > 0 && len(c.except) < 4 {
			c.except = append(c.except, b.cron())
		}
		for b.IntN(3) == 0 && len(c.only) < 3 {
			c.only = append(c.only, b.cron())
		}
	case many:
		c.crons = b.crons(1 + b.IntN(maxParts))
		if b.IntN(4) > 0 {
			c.except = b.crons(b.IntN(maxParts + 1))
		}
		if b.IntN(2) == 0 {
			c.only = b.crons(b.IntN(maxParts + 1))
		}
	}
	location, _ := time.LoadLocation(c.zone)
	c.from = b.instant(location)
	return c
}

// mutate changes one thing.
func (b breeder) mutate(c candidate) candidate {
	change := func(all [][]string) [][]string {
		out := slices.Clone(all)
		if len(out) == 0 {
			return out
		}
		i := b.IntN(len(out))
		out[i] = slices.Clone(out[i])
		field := b.IntN(len(cronFields))
		out[i][field] = b.word(field)
		return out
	}
	switch b.IntN(7) {
	case 0:
		c.zone = b.zone()
	case 1:
		location, _ := time.LoadLocation(c.zone)
		c.from = b.instant(location)
	case 2:
		c.except = change(c.except)
	case 3:
		c.only = change(c.only)
	default:
		c.crons = change(c.crons)
	}
	return c
}

func (b breeder) definition(c candidate) Schedule {
	s := Schedule{ID: "worst", Type: "t", Timezone: c.zone}
	for _, words := range c.crons {
		s.Specs = append(s.Specs, SpecDefinition{Cron: b.text(words)})
	}
	for _, words := range c.except {
		s.Except = append(s.Except, Window{Cron: b.text(words)})
	}
	for _, words := range c.only {
		s.Only = append(s.Only, Window{Cron: b.text(words)})
	}
	return s
}

// cost is the shortest of three measurements of the dearer of Next and Prev.
func cost(c *Compiled, from time.Time) time.Duration {
	least := time.Hour
	for range 3 {
		began := time.Now()
		c.Next(from)
		next := time.Since(began)
		began = time.Now()
		c.Prev(from)
		least = min(least, max(next, time.Since(began)))
		if least < 20*time.Microsecond {
			break
		}
	}
	return least
}

// BenchmarkWorstSearch searches for the dearest schedules: single expressions,
// whole schedules, and those with up to as many parts as there may be, apart. BELFRY_BENCH_WORST is how many are drawn of each,
// 500 by default; BELFRY_BENCH_WORST_SEED is the seed.
func BenchmarkWorstSearch(b *testing.B) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	for how, name := range []string{"expressions", "schedules", "large schedules"} {
		b.Run(name, func(b *testing.B) {
			var worst string
			for b.Loop() {
				breed := breeder{rand.New(rand.NewPCG(uint64(number("BELFRY_BENCH_WORST_SEED", 1)), 0)), testZones(b)}
				worst = worstOf(b, breed, size(how), number("BELFRY_BENCH_WORST", 500))
			}
			b.Log(worst)
		})
	}
}

// worstOf draws and changes candidates, and reports the worst by time.
func worstOf(b *testing.B, breed breeder, how size, draws int) string {
	var best candidate
	dearest := time.Duration(0)
	for i := range draws {
		c := best
		if i%4 == 0 || dearest == 0 {
			c = breed.candidate(how)
		} else {
			for range 1 + breed.IntN(3) {
				c = breed.mutate(c)
			}
		}
		compiled, err := Compile(breed.definition(c), nil)
		if err != nil {
			continue
		}
		if took := cost(compiled, c.from); took > dearest {
			best, dearest = c, took
		}
	}
	b.ReportMetric(float64(dearest.Nanoseconds()), "worst-ns")
	return fmt.Sprintf("%s: %+v from %s", dearest, breed.definition(best), best.from.Format(time.RFC3339))
}
