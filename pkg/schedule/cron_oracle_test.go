package schedule

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones must not depend on the machine
)

// testZones loads the zones of testdata/zones.txt: one per region whose clocks
// agree since 1970.
func testZones(t testing.TB) []*time.Location {
	t.Helper()
	data, err := os.ReadFile("testdata/zones.txt")
	if err != nil {
		t.Fatal(err)
	}
	var zones []*time.Location
	for _, name := range strings.Fields(string(data)) {
		location, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, location)
	}
	if len(zones) < 200 {
		t.Fatalf("only %d zones", len(zones))
	}
	return zones
}

// longTest reports whether tests may take minutes.
func longTest() bool { return os.Getenv("BELFRY_TEST_LONG") == "1" }

// offsetChanges finds the instants from 1970 to 2037 at which the offset
// changes, by looking every three days (in a long test twice a day) and halving.
func offsetChanges(location *time.Location) []int64 {
	offset := func(at int64) int {
		_, o := time.Unix(at, 0).In(location).Zone()
		return o
	}
	step := int64(3 * secondsPerDay)
	if longTest() {
		step = secondsPerDay / 2
	}
	var changes []int64
	end := time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for at := int64(0); at < end; at += step {
		if offset(at) == offset(at+step) {
			continue
		}
		low, high := at, at+step
		for high-low > 1 {
			if middle := (low + high) / 2; offset(middle) == offset(low) {
				low = middle
			} else {
				high = middle
			}
		}
		changes = append(changes, high)
	}
	return changes
}

// An oracleSpec is an expression whose meaning the oracle knows without
// parsing it.
type oracleSpec struct {
	text                string
	minutes, hours      []int
	date                func(t time.Time) bool
	interval, everyHour bool
}

type oracleField struct {
	text   string
	values []int
}

func upTo(from, to, step int) (values []int) {
	for v := from; v <= to; v += step {
		values = append(values, v)
	}
	return values
}

var (
	oracleMinutes = []oracleField{
		{"*", upTo(0, 59, 1)}, {"*/15", upTo(0, 59, 15)}, {"30", []int{30}}, {"0", []int{0}}, {"0,30", []int{0, 30}},
		{"10-20", upTo(10, 20, 1)}, {"7/20", upTo(7, 59, 20)}, {"59", []int{59}}, {"55-5/5", []int{55, 0, 5}}, {"1,15,44,45", []int{1, 15, 44, 45}},
	}
	oracleHours = []oracleField{
		{"*", upTo(0, 23, 1)}, {"2", []int{2}}, {"1", []int{1}}, {"0", []int{0}}, {"23", []int{23}}, {"1-3", []int{1, 2, 3}},
		{"*/2", upTo(0, 23, 2)}, {"22-2", []int{22, 23, 0, 1, 2}}, {"0-23", upTo(0, 23, 1)}, {"0,1,2,3", []int{0, 1, 2, 3}},
		{"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23", upTo(0, 23, 1)}, {"3", []int{3}}, {"0,23", []int{0, 23}},
	}
)

// randomOracle draws an expression that has to do with the day of the change.
func randomOracle(r *rand.Rand, change time.Time) oracleSpec {
	minute, hour := oracleMinutes[r.IntN(len(oracleMinutes))], oracleHours[r.IntN(len(oracleHours))]
	spec := oracleSpec{minutes: minute.values, hours: hour.values, everyHour: len(hour.values) == 24}
	spec.interval = strings.ContainsAny(minute.text+hour.text, "*-/")
	day := change.AddDate(0, 0, r.IntN(3)-1)
	var date string
	switch r.IntN(6) {
	case 0:
		date, spec.date = "* * *", func(time.Time) bool { return true }
	case 1:
		date = fmt.Sprintf("%d * ?", day.Day())
		spec.date = func(t time.Time) bool { return t.Day() == day.Day() }
	case 2:
		date = fmt.Sprintf("* %d %d", day.Month(), day.Weekday())
		spec.date = func(t time.Time) bool { return t.Month() == day.Month() && t.Weekday() == day.Weekday() }
	case 3:
		date = fmt.Sprintf("%d * %s", day.Day(), strings.ToLower(day.Weekday().String()))
		spec.date = func(t time.Time) bool { return t.Day() == day.Day() || t.Weekday() == day.Weekday() }
	case 4:
		date = fmt.Sprintf("*/2 * +%d", day.Weekday())
		spec.date = func(t time.Time) bool { return t.Day()%2 == 1 && t.Weekday() == day.Weekday() }
	default:
		date = "L * " + day.Format("Mon") + "L"
		spec.date = func(t time.Time) bool {
			return t.AddDate(0, 0, 1).Day() == 1 || t.Weekday() == day.Weekday() && t.AddDate(0, 0, 7).Month() != t.Month()
		}
	}
	spec.text = minute.text + " " + hour.text + " " + date
	return spec
}

// walk is the oracle: it reads the wall clock at every minute around the
// change and then applies rule R to every minute of every civil date.
func (o oracleSpec) walk(location *time.Location, change int64) []int64 {
	const reach = 3 * secondsPerDay
	begin := (change - reach) / 60 * 60
	_, offset := time.Unix(begin, 0).In(location).Zone()
	dateFrom := floorDiv(begin+int64(offset), secondsPerDay)*secondsPerDay - secondsPerDay
	const dates = 9
	passes := make([][]int64, dates*1440)
	walls := make([]int64, 0, 2*reach/60)
	for at := begin; at <= change+reach; at += 60 {
		_, offset := time.Unix(at, 0).In(location).Zone()
		wall := at + int64(offset)
		walls = append(walls, wall)
		if i := (wall - dateFrom) / 60; i >= 0 && i < dates*1440 {
			passes[i] = append(passes[i], at)
		}
	}
	var firings []int64
	for day := int64(1); day < dates-1; day++ {
		if !o.date(time.Unix(dateFrom+day*secondsPerDay, 0).UTC()) {
			continue
		}
		for _, hour := range o.hours {
			for _, minute := range o.minutes {
				i := day*1440 + int64(hour)*60 + int64(minute)
				switch wall := dateFrom + i*60; {
				case len(passes[i]) == 1 || len(passes[i]) > 1 && o.interval:
					firings = append(firings, passes[i]...)
				case len(passes[i]) > 1:
					firings = append(firings, passes[i][0])
				case !o.everyHour && wall > walls[0]:
					if next := slices.IndexFunc(walls, func(w int64) bool { return w > wall }); next > 0 {
						firings = append(firings, begin+int64(next)*60)
					}
				}
			}
		}
	}
	slices.Sort(firings)
	return slices.Compact(firings)
}

// compare checks Next, Prev and countBetween against the oracle within two
// days of the change.
func (o oracleSpec) compare(t *testing.T, location *time.Location, change int64) {
	t.Helper()
	spec, err := parseCron(o.text, CronOptions{Location: location})
	if err != nil {
		t.Fatalf("%q: %v", o.text, err)
	}
	from, to := change-2*secondsPerDay, change+2*secondsPerDay
	want := o.walk(location, change)
	want = slices.DeleteFunc(want, func(at int64) bool { return at <= from || at > to })
	var got []int64
	for at := time.Unix(from, 0); ; {
		next, ok := spec.Next(at)
		if !ok || next.Unix() > to {
			break
		}
		if !next.After(at) {
			t.Fatalf("%q in %s: Next(%s) is %s", o.text, location, at.UTC(), next.UTC())
		}
		got = append(got, next.Unix())
		at = next
	}
	describe := func(list []int64) string {
		var words []string
		for _, at := range list {
			words = append(words, time.Unix(at, 0).In(location).Format("Jan02T15:04-07:00"))
		}
		return strings.Join(words, " ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q in %s around %s:\n got %s\nwant %s", o.text, location, time.Unix(change, 0).UTC(), describe(got), describe(want))
		return
	}
	var back []int64
	for at := time.Unix(to+1, 0); ; {
		previous, ok := spec.Prev(at)
		if !ok || previous.Unix() <= from {
			break
		}
		back = append(back, previous.Unix())
		at = previous
	}
	slices.Reverse(back)
	if !slices.Equal(back, want) {
		t.Errorf("%q in %s around %s:\nPrev %s\nwant %s", o.text, location, time.Unix(change, 0).UTC(), describe(back), describe(want))
	}
	for _, start := range []int64{from, change - 1800, change - 1, change, change + 1800, change + 5400} {
		expected := 0
		for _, at := range want {
			if at > start {
				expected++
			}
		}
		n, exact := spec.countBetween(time.Unix(start, 0), time.Unix(to, 0), 1<<20)
		if n != int64(expected) || !exact {
			t.Errorf("%q in %s: %d after %s, want %d", o.text, location, n, time.Unix(start, 0).UTC(), expected)
		}
	}
}

// TestOracle compares the engine with a minute walker around the clock
// changes of every zone. With BELFRY_TEST_LONG=1 it takes all of them.
func TestOracle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	zones, compared, seen := testZones(t), 0, 0
	for _, location := range zones {
		changes := offsetChanges(location)
		seen += len(changes)
		if !longTest() && len(changes) > 4 {
			r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
			changes = changes[:4]
		}
		for _, change := range changes {
			before, after := segmentAt(location, change-1).offset, segmentAt(location, change).offset
			if before%60 != 0 || after%60 != 0 {
				continue // a minute walker sees no part of a minute; see TestSecondsOffset
			}
			for range 3 {
				randomOracle(r, time.Unix(change, 0).UTC()).compare(t, location, change)
				compared++
				if t.Failed() {
					return
				}
			}
		}
	}
	t.Logf("%d comparisons, %d zones, %d changes", compared, len(zones), seen)
}
