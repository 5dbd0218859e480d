package schedule

import "strings"

// The range of the year field.
const (
	minCronYear = 1970
	maxCronYear = 2099
)

// A cronField describes one field of an expression.
type cronField struct {
	name     string // as in messages, and hashed for H
	min, max int
	last     int    // where n/step ends and * ends
	hashMax  int    // largest value of a bare H; 0: no H
	names    string // three-letter names in order, four bytes each
	full     []string
	days     byte // 'm' day-of-month, 'w' day-of-week: which special forms it has
}

const (
	monthNames   = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC "
	weekdayNames = "SUN MON TUE WED THU FRI SAT "
)

var (
	fullMonths = []string{"JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE", "JULY", "AUGUST",
		"SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"}
	fullWeekdays = []string{"SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"}
)

// The fields in the order in which seven of them are written.
var cronFields = [7]cronField{
	{name: "second", max: 59, last: 59, hashMax: 59},
	{name: "minute", max: 59, last: 59, hashMax: 59},
	{name: "hour", max: 23, last: 23, hashMax: 23},
	// H stays away from the 29th, 30th and 31st, which some months lack.
	{name: "day-of-month", min: 1, max: 31, last: 31, hashMax: 28, days: 'm'},
	{name: "month", min: 1, max: 12, last: 12, hashMax: 12, names: monthNames, full: fullMonths},
	// 7 is a second name of Sunday and no eighth day.
	{name: "day-of-week", max: 7, last: 6, hashMax: 6, names: weekdayNames, full: fullWeekdays, days: 'w'},
	{name: "year", min: minCronYear, max: maxCronYear, last: maxCronYear},
}

const (
	fieldSecond = iota
	fieldMinute
	fieldHour
	fieldDay
	fieldMonth
	fieldWeekday
	fieldYear
)

// maxStep is the largest step that still means something: more would select
// the first value alone, which is not what a step says.
func (f *cronField) maxStep() int {
	if f.max == maxCronYear {
		return maxCronYear - minCronYear
	}
	return f.max
}

// size is how many different values the field has, for ranges that wrap.
func (f *cronField) size() int { return f.last - f.min + 1 }

// named returns the value of a name, given in upper case.
func (f *cronField) named(word string) (int, bool) {
	if f.names == "" {
		return 0, false
	}
	if len(word) == 3 {
		if i := strings.Index(f.names, word+" "); i >= 0 && i%4 == 0 {
			return f.min + i/4, true
		}
	}
	for i, full := range f.full {
		if word == full {
			return f.min + i, true
		}
	}
	return 0, false
}

type itemKind int

const (
	itemRange       itemKind = iota // from-to/step; a single value has from == to
	itemLast                        // L-from
	itemNearest                     // fromW
	itemNearestLast                 // L-fromW
	itemNth                         // from-to#n; n 0 is the last
)

// A cronItem is one element of a list, as written but with H replaced.
type cronItem struct {
	kind     itemKind
	star     bool // * (or ?)
	ranged   bool // from-to, even when both are equal
	open     bool // from/step: up to the last value
	from, to int
	step     int // 0: none
	nth      int
}

// each calls visit with the values of an itemRange or itemNth in the order in
// which they are written, along the wrapped range.
func (i cronItem) each(f *cronField, visit func(value int)) {
	from, to, step := i.from, i.to, max(i.step, 1)
	if f.days == 'w' && from == 7 {
		// As the start of a range 7 is the Sunday before the other days.
		from, to = 0, to%7
	}
	if to < from {
		to += f.size()
	}
	for value := from; value <= to; value += step {
		if value > f.last {
			visit((value-f.min)%f.size() + f.min)
			continue
		}
		visit(value)
	}
}
