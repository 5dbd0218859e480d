package schedule

import "math/bits"

// The years in which scheduled times are looked for. Beyond them an instant
// has no RFC 3339 form.
const (
	firstYear = 1
	lastYear  = 9999
)

// The instants that are looked at: in those years in every zone.
var (
	firstInstant = daysFromCivil(firstYear, 1, 1)*secondsPerDay + maxShift
	lastInstant  = daysFromCivil(lastYear+1, 1, 1)*secondsPerDay - maxShift - 1
)

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// daysFromCivil numbers the days of the proleptic Gregorian calendar from
// 1970-01-01 on. It counts eras of 400 years that begin on 1 March.
func daysFromCivil(year int64, month, day int) int64 {
	if month <= 2 {
		year--
	}
	era := floorDiv(year, 400)
	yearOfEra := year - era*400
	shifted := int64((month + 9) % 12)
	dayOfYear := (153*shifted+2)/5 + int64(day) - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// civilFromDays is the inverse of daysFromCivil.
func civilFromDays(days int64) (year int64, month, day int) {
	days += 719468
	era := floorDiv(days, 146097)
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153
	day = int(dayOfYear - (153*shifted+2)/5 + 1)
	month = int(shifted) + 3
	year = yearOfEra + era*400
	if month > 12 {
		month -= 12
	}
	if month <= 2 {
		year++
	}
	return year, month, day
}

// weekdayOf returns 0 for Sunday to 6 for Saturday.
func weekdayOf(days int64) int {
	return int(((days+4)%7 + 7) % 7)
}

func isLeap(year int64) bool {
	return year%4 == 0 && (year%100 != 0 || year%400 == 0)
}

func monthLength(year int64, month int) int {
	if month == 2 {
		if isLeap(year) {
			return 29
		}
		return 28
	}
	return 30 + (month+month>>3)&1
}

// cronDates are the date fields of an expression as sets.
type cronDates struct {
	years       [3]uint64 // bit y-1970; only if !anyYear
	days        uint32    // bit n: day n
	fromLast    uint32    // bit n: n days before the last day
	nearest     uint32    // bit n: the weekday nearest to day n
	nearestLast uint32    // bit n: the weekday nearest to n days before the last
	months      uint16    // bit n: month n
	weekdays    uint8     // bit n: weekday n, Sunday is 0
	nth         [7]uint8  // per weekday, bit n: its n-th in the month, bit 0: its last
	anyYear     bool
	anyDay      bool // day-of-month is unrestricted
	anyWeekday  bool
	both        bool   // + : day-of-month and day-of-week must both match
	everyDay    bool   // no date field restricts anything
	kinds       uint16 // the kinds of years, see yearKind, that have a matching date
}

// A year is of one of 14 kinds, by the weekday of its 1 January and whether it
// is a leap year: years of a kind have the same matching dates.
const everyKind uint16 = 1<<14 - 1

// yearKind returns the bit of a year's kind.
func yearKind(year int64) uint16 {
	kind := weekdayOf(daysFromCivil(year, 1, 1))
	if isLeap(year) {
		kind += 7
	}
	return 1 << kind
}

// findKinds returns the kinds of years that have a matching date.
func (d *cronDates) findKinds() uint16 {
	if d.anyDay && (d.anyWeekday || d.weekdays != 0) || !d.both && !d.anyDay && d.days&(1<<29-2) != 0 {
		return everyKind // every month has a match
	}
	var kinds uint16
	for year := int64(1972); year < 1972+28; year++ { // 28 years have every kind
		for months := d.months; months != 0; months &= months - 1 {
			if d.month(year, bits.TrailingZeros16(months)) != 0 {
				kinds |= yearKind(year)
				break
			}
		}
	}
	return kinds
}

// everyWeek has the bits of days 1, 8, 15, 22 and 29.
const everyWeek uint32 = 1<<1 | 1<<8 | 1<<15 | 1<<22 | 1<<29

// month returns the matching days of a month, bit n for day n, whether or not
// the year and the month field allow that month.
func (d *cronDates) month(year int64, month int) uint32 {
	length := monthLength(year, month)
	if d.anyDay && d.anyWeekday {
		return uint32(1)<<(length+1) - 2
	}
	return d.match(length, weekdayOf(daysFromCivil(year, month, 1)))
}

// match is month for any month of that length whose 1st is that weekday.
func (d *cronDates) match(length, first int) uint32 {
	all := uint32(1)<<(length+1) - 2
	if d.anyDay && d.anyWeekday {
		return all
	}
	if d.anyWeekday {
		return d.byDay(length, first) & all
	}
	byWeekday := d.byWeekday(length, first) & all
	switch {
	case d.anyDay:
		return byWeekday
	case d.both:
		return byWeekday & d.byDay(length, first)
	}
	return byWeekday | d.byDay(length, first)&all
}

func (d *cronDates) byDay(length, first int) uint32 {
	mask := d.days
	for set := d.fromLast; set != 0; set &= set - 1 {
		if day := length - bits.TrailingZeros32(set); day >= 1 {
			mask |= 1 << day
		}
	}
	for set := d.nearest; set != 0; set &= set - 1 {
		if day := bits.TrailingZeros32(set); day <= length {
			mask |= 1 << nearestWeekday(day, length, first)
		}
	}
	for set := d.nearestLast; set != 0; set &= set - 1 {
		if day := length - bits.TrailingZeros32(set); day >= 1 {
			mask |= 1 << nearestWeekday(day, length, first)
		}
	}
	return mask
}

// nearestWeekday moves a Saturday to the Friday before and a Sunday to the
// Monday after, but never out of the month.
func nearestWeekday(day, length, first int) int {
	switch (first + day - 1) % 7 {
	case 6:
		if day == 1 {
			return 3
		}
		return day - 1
	case 0:
		if day == length {
			return day - 2
		}
		return day + 1
	}
	return day
}

func (d *cronDates) byWeekday(length, first int) uint32 {
	var mask uint32
	for weekday := range 7 {
		start := (weekday - first + 7) % 7 // days from the 1st to the first such weekday
		if d.weekdays&(1<<weekday) != 0 {
			mask |= everyWeek << start
		}
		for set := d.nth[weekday]; set != 0; set &= set - 1 {
			n := bits.TrailingZeros8(set)
			if n == 0 {
				n = (length-1-start)/7 + 1
			}
			if day := start + 7*n - 6; day <= length {
				mask |= 1 << day
			}
		}
	}
	return mask
}

// allows reports whether the date fields match that day.
func (d *cronDates) allows(days int64) bool {
	if d.everyDay {
		return true
	}
	year, month, day := civilFromDays(days)
	return d.months&(1<<month) != 0 && d.yearAllowed(year) && d.month(year, month)&(1<<day) != 0
}

func (d *cronDates) yearAllowed(year int64) bool {
	if d.anyYear {
		return true
	}
	i := year - minCronYear
	return i >= 0 && i < maxCronYear-minCronYear+1 && d.years[i>>6]&(1<<(i&63)) != 0
}

// yearFrom returns the first allowed year with a matching date from year on,
// and one after lastYear when there is none.
func (d *cronDates) yearFrom(year int64) int64 {
	year = d.listedFrom(year)
	for year <= lastYear && d.kinds != everyKind && d.kinds&yearKind(year) == 0 {
		if d.kinds == 0 {
			return lastYear + 1
		}
		year = d.listedFrom(year + 1)
	}
	return year
}

// listedFrom returns the first allowed year from year on, and lastYear+1 when
// there is none.
func (d *cronDates) listedFrom(year int64) int64 {
	if d.anyYear {
		return year
	}
	for i := max(year-minCronYear, 0); i < 192; {
		if set := d.years[i>>6] >> (i & 63); set != 0 {
			return minCronYear + i + int64(bits.TrailingZeros64(set))
		}
		i = (i | 63) + 1
	}
	return lastYear + 1
}

// yearUntil returns the last allowed year with a matching date up to year, and
// one before firstYear when there is none.
func (d *cronDates) yearUntil(year int64) int64 {
	year = d.listedUntil(year)
	for year >= firstYear && d.kinds != everyKind && d.kinds&yearKind(year) == 0 {
		if d.kinds == 0 {
			return firstYear - 1
		}
		year = d.listedUntil(year - 1)
	}
	return year
}

// listedUntil returns the last allowed year up to year, and firstYear-1 when
// there is none.
func (d *cronDates) listedUntil(year int64) int64 {
	if d.anyYear {
		return year
	}
	for i := min(year-minCronYear, 191); i >= 0; {
		if set := d.years[i>>6] << (63 - i&63); set != 0 {
			return minCronYear + i - int64(bits.LeadingZeros64(set))
		}
		i = i&^63 - 1
	}
	return firstYear - 1
}

// The Gregorian calendar repeats after 400 years, so a search over more months
// than that finds nothing new.
const monthsPerCycle = 400 * 12

// from returns the first matching day from days on. Steps counts the months
// that were looked at.
func (d *cronDates) from(days int64, steps *int) (int64, bool) {
	year, month, day := civilFromDays(days)
	for range monthsPerCycle + 1 {
		if allowed := d.yearFrom(year); allowed != year {
			year, month, day = allowed, 1, 1
		}
		later := d.months >> month << month
		if later == 0 {
			year, month, day = year+1, 1, 1
			*steps++
			continue
		}
		if next := bits.TrailingZeros16(later); next != month {
			month, day = next, 1
		}
		if year > lastYear {
			return 0, false
		}
		*steps++
		if mask := d.month(year, month) >> day; mask != 0 {
			return daysFromCivil(year, month, day+bits.TrailingZeros32(mask)), true
		}
		month, day = month+1, 1
	}
	return 0, false
}

// until returns the last matching day up to days.
func (d *cronDates) until(days int64, steps *int) (int64, bool) {
	year, month, day := civilFromDays(days)
	for range monthsPerCycle + 1 {
		if allowed := d.yearUntil(year); allowed != year {
			year, month, day = allowed, 12, 31
		}
		earlier := d.months << (15 - month) >> (15 - month)
		if earlier == 0 {
			year, month, day = year-1, 12, 31
			*steps++
			continue
		}
		if previous := 15 - bits.LeadingZeros16(earlier); previous != month {
			month, day = previous, 31
		}
		if year < firstYear {
			return 0, false
		}
		*steps++
		if mask := d.month(year, month) << (31 - day); mask != 0 {
			return daysFromCivil(year, month, day-bits.LeadingZeros32(mask)), true
		}
		month, day = month-1, 31
	}
	return 0, false
}
