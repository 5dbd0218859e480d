package schedule

import (
	"slices"
	"strings"
	"time"
)

// maxInstants bounds the list of one-shots of one spec.
const maxInstants = 1000

// atSpec is a list of instants.
type atSpec struct {
	millis   []int64 // ascending, without repetition
	location *time.Location
}

// newAt makes a spec of the instants that the texts name; fields are numbered
// in errors. A local time is read in location.
func newAt(field string, texts []string, location *time.Location) (Spec, error) {
	if len(texts) == 0 || len(texts) > maxInstants {
		return nil, &FieldError{Field: field, Value: itoa(len(texts)) + " instants", Allowed: "1 to " + itoa(maxInstants) + " instants"}
	}
	millis := make([]int64, 0, len(texts))
	for i, text := range texts {
		t, err := parseAbsolute(text, location)
		if err != nil {
			return nil, inField(err, indexed(field, i))
		}
		millis = append(millis, t.UnixMilli())
	}
	slices.Sort(millis)
	return atSpec{millis: slices.Compact(millis), location: location}, nil
}

func (s atSpec) sealed() {}

func (s atSpec) Next(after time.Time) (time.Time, bool) {
	i, _ := slices.BinarySearch(s.millis, floorMillis(after)+1)
	if i == len(s.millis) {
		return time.Time{}, false
	}
	return fromMillis(s.millis[i], s.location)
}

func (s atSpec) Prev(before time.Time) (time.Time, bool) {
	i, _ := slices.BinarySearch(s.millis, ceilMillis(before))
	if i == 0 {
		return time.Time{}, false
	}
	return fromMillis(s.millis[i-1], s.location)
}

func (s atSpec) countMillis(first, last int64) (int64, bool) {
	if last < first {
		return 0, true
	}
	from, _ := slices.BinarySearch(s.millis, first)
	to, _ := slices.BinarySearch(s.millis, last+1)
	return int64(to - from), true
}

func (s atSpec) String() string {
	texts := make([]string, len(s.millis))
	for i, ms := range s.millis {
		texts[i] = formatInstant(time.UnixMilli(ms))
	}
	return "once:" + strings.Join(texts, ",")
}
