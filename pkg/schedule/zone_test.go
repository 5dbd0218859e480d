package schedule

import (
	"testing"
	"time"
)

func TestLoadLocation(t *testing.T) {
	for _, name := range []string{"", "UTC"} {
		if location, err := loadLocation(name); err != nil || location != time.UTC {
			t.Errorf("%q is %v, %v", name, location, err)
		}
	}
	for _, name := range []string{"Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "America/Port-au-Prince", "EET"} {
		if location, err := loadLocation(name); err != nil || location.String() != name {
			t.Errorf("%q is %v, %v", name, location, err)
		}
	}
	for name, hint := range map[string]string{
		"Local": "host", "local": "host", "/etc/localtime": "", "../zone": "", "Europe/../Europe/Berlin": "", `Europe\Berlin`: "",
		"Mars/Phobos": "", "Europe": "", "europe/berlin": "Europe/Berlin", "AMERICA/NEW_YORK": "America/New_York",
		"utc": "UTC", "Europe/Berlin ": "", "UTC\x00": "", "Europe/Bérlin": "",
	} {
		location, err := loadLocation(name)
		if err == nil {
			t.Errorf("%q is %v", name, location)
			continue
		}
		expectField(t, err, "timezone", name, hint)
	}
}

func TestResolveLocal(t *testing.T) {
	for _, test := range []struct {
		zone, wall    string
		kind          localKind
		first, second string
	}{
		{"UTC", "2026-03-29 02:30:00.250", localOnce, "2026-03-29T02:30:00.25Z", ""},
		{"Europe/Berlin", "2026-03-29 01:59:59.999", localOnce, "2026-03-29T00:59:59.999Z", ""},
		{"Europe/Berlin", "2026-03-29 02:00:00.000", localMissing, "2026-03-29T01:00:00Z", ""},
		{"Europe/Berlin", "2026-03-29 02:59:59.999", localMissing, "2026-03-29T01:00:00Z", ""},
		{"Europe/Berlin", "2026-03-29 03:00:00.000", localOnce, "2026-03-29T01:00:00Z", ""},
		{"Europe/Berlin", "2026-10-25 02:30:00.500", localTwice, "2026-10-25T00:30:00.5Z", "2026-10-25T01:30:00.5Z"},
		{"Europe/Berlin", "2026-10-25 03:00:00.000", localOnce, "2026-10-25T02:00:00Z", ""},
		{"Europe/Berlin", "2126-03-31 02:30:00.000", localMissing, "2126-03-31T01:00:00Z", ""},
		{"Pacific/Apia", "2011-12-30 12:00:00.000", localMissing, "2011-12-30T10:00:00Z", ""},
		{"Pacific/Apia", "2011-12-29 23:59:59.000", localOnce, "2011-12-30T09:59:59Z", ""},
		{"America/Sao_Paulo", "2018-11-04 00:00:00.000", localMissing, "2018-11-04T03:00:00Z", ""},
		{"Australia/Lord_Howe", "2026-04-05 01:45:00.000", localTwice, "2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"},
		{"Antarctica/Troll", "2026-10-25 02:30:00.000", localTwice, "2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z"},
		{"Africa/Monrovia", "1972-01-07 00:20:00.000", localMissing, "1972-01-07T00:44:30Z", ""},
		{"Asia/Kolkata", "1970-01-01 05:30:00.000", localOnce, "1970-01-01T00:00:00Z", ""},
	} {
		location, err := time.LoadLocation(test.zone)
		if err != nil {
			t.Fatal(err)
		}
		wall, err := time.Parse("2006-01-02 15:04:05.000", test.wall)
		if err != nil {
			t.Fatal(err)
		}
		first, second, kind := resolveLocal(location, wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond()/1e6)
		want := instantAt(t, test.first)
		if kind != test.kind || !first.Equal(want) || first.Location() != location {
			t.Errorf("%s in %s: %s, kind %d, want %s, kind %d", test.wall, test.zone, first, kind, test.first, test.kind)
		}
		if test.second == "" && !second.IsZero() || test.second != "" && !second.Equal(instantAt(t, test.second)) {
			t.Errorf("%s in %s: second pass %s, want %q", test.wall, test.zone, second, test.second)
		}
	}
}

// TestSegments checks what the engine assumes about package time: within the
// bounds that it gives the offset does not change, and they contain the
// instant.
func TestSegments(t *testing.T) {
	t.Parallel()
	step := int64(90 * secondsPerDay)
	if longTest() {
		step = secondsPerDay / 2
	}
	end := time.Date(2110, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for _, location := range testZones(t) {
		instants := offsetChanges(location)
		for at := int64(0); at < end; at += step {
			instants = append(instants, at)
		}
		for year := int64(1971); year < 2110; year++ {
			newYear := daysFromCivil(year, 1, 1) * secondsPerDay
			instants = append(instants, newYear-secondsPerDay, newYear-1, newYear)
		}
		for _, at := range instants {
			checkSegment(t, location, at)
			if t.Failed() {
				return
			}
		}
	}
}

func checkSegment(t *testing.T, location *time.Location, at int64) {
	t.Helper()
	segment := segmentAt(location, at)
	if at < segment.start || at >= segment.end {
		t.Errorf("%s: %d is not in its segment %+v", location, at, segment)
	}
	probes := []int64{segment.start, segment.end - 1, at, max(segment.start, at-3600), min(segment.end-1, at+3600), max(segment.start, at-20*secondsPerDay)}
	for _, probe := range probes {
		if probe == beginning || probe == eternity-1 {
			continue
		}
		if _, offset := time.Unix(probe, 0).In(location).Zone(); int64(offset) != segment.offset {
			t.Errorf("%s: offset %d at %d, segment of %d is %+v", location, offset, probe, at, segment)
		}
	}
}
