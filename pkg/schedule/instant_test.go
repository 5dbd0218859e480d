package schedule

import (
	"errors"
	"testing"
	"time"
)

// mustZone loads a zone that the tests need.
func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	location, err := loadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

// utc reads an RFC 3339 time of a test.
func utc(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}

func TestParseInstant(t *testing.T) {
	// Wednesday, 10:30 in Berlin.
	now := utc(t, "2026-04-01T08:30:00Z")
	tests := []struct{ name, text, want string }{
		{"RFC 3339", "2026-05-01T12:00:00Z", "2026-05-01T12:00:00Z"},
		{"RFC 3339 with an offset and milliseconds", "2026-05-01T12:00:00.250+02:00", "2026-05-01T10:00:00.25Z"},
		{"a date is its local midnight", "2026-05-01", "2026-04-30T22:00:00Z"},
		{"a date and a time", "2026-05-01 09:00", "2026-05-01T07:00:00Z"},
		{"a date and a time with T and seconds", "2026-05-01T09:00:30", "2026-05-01T07:00:30Z"},
		{"milliseconds of local time", "2026-05-01 09:00:30.5", "2026-05-01T07:00:30.5Z"},
		{"a zone of its own", "2026-05-01 09:00 America/New_York", "2026-05-01T13:00:00Z"},
		{"in the gap: the first instant after it", "2026-03-29 02:30", "2026-03-29T01:00:00Z"},
		{"in the overlap: the first pass", "2026-10-25 02:30", "2026-10-25T00:30:00Z"},
		{"a midnight that does not exist", "2018-11-04 00:00 America/Sao_Paulo", "2018-11-04T03:00:00Z"},
		{"a date that does not exist", "2011-12-30 12:00 Pacific/Apia", "2011-12-30T10:00:00Z"},
		{"now", "now", "2026-04-01T08:30:00Z"},
		{"in any case, with spaces around", "  NOW ", "2026-04-01T08:30:00Z"},
		{"from now", "+90m", "2026-04-01T10:00:00Z"},
		{"before now", "-2h", "2026-04-01T06:30:00Z"},
		{"a day from now is 24 hours", "+1d", "2026-04-02T08:30:00Z"},
		{"today", "today 09:00", "2026-04-01T07:00:00Z"},
		{"tomorrow", "tomorrow 09:00", "2026-04-02T07:00:00Z"},
		{"tomorrow, as people write it", "tomorrow 9am", "2026-04-02T07:00:00Z"},
		{"twelve o'clock at noon", "tomorrow 12pm", "2026-04-02T10:00:00Z"},
		{"twelve o'clock at night", "tomorrow 12am", "2026-04-01T22:00:00Z"},
		{"an evening", "tomorrow 9:30pm", "2026-04-02T19:30:00Z"},
		{"yesterday", "yesterday 23:59:59", "2026-03-31T21:59:59Z"},
		{"the next Monday", "mon 09:00", "2026-04-06T07:00:00Z"},
		{"later on this weekday is today", "wed 11:00", "2026-04-01T09:00:00Z"},
		{"earlier on this weekday is next week", "Wednesday 10:30", "2026-04-08T08:30:00Z"},
	}
	berlin := mustZone(t, "Europe/Berlin")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseInstant(tt.text, now, berlin)
			if err != nil || !got.Equal(utc(t, tt.want)) {
				t.Errorf("ParseInstant(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
			}
		})
	}
	got, err := ParseInstant("2026-05-01 09:00", now, nil)
	if err != nil || !got.Equal(utc(t, "2026-05-01T09:00:00Z")) {
		t.Errorf("without a location: %v, %v, want UTC", got, err)
	}
}

func TestParseInstantRefuses(t *testing.T) {
	tests := []struct{ name, text string }{
		{"nothing", ""},
		{"garbage", "garbage words"},
		{"one word of garbage", "soonish"},
		{"Unix seconds", "1775032200"},
		{"Unix milliseconds", "1775032200000"},
		{"a signed number", "+90"},
		{"a time without a day", "09:00"},
		{"a day without a time", "tomorrow"},
		{"an hour without am or pm", "tomorrow 9"},
		{"one digit for the hour", "tomorrow 9:00"},
		{"a thirteenth hour before noon", "tomorrow 13am"},
		{"hour 24", "tomorrow 24:00"},
		{"minute 60", "today 10:60"},
		{"slashes", "02/03/2026"},
		{"a date that does not exist", "2026-02-30"},
		{"a month that does not exist", "2026-13-01 09:00"},
		{"RFC 3339 with a date that does not exist", "2026-02-30T00:00:00Z"},
		{"RFC 3339 without seconds", "2026-04-01T09:00Z"},
		{"finer than a millisecond", "2026-04-01T09:00:00.0001Z"},
		{"an unknown zone", "2026-04-01 09:00 Mars/Phobos"},
		{"words after now", "now please"},
		{"a duration in words", "2 hours from now"},
		{"months from now", "+1mo"},
		{"beyond all years", "+106751d23h47m16s and more"},
		{"a comma for the point", "2026-04-01T09:00:00,5Z"},
		{"a control character", "now\x00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseInstant(tt.text, utc(t, "2026-04-01T08:30:00Z"), nil)
			var field *FieldError
			if !errors.As(err, &field) {
				t.Errorf("ParseInstant(%q) = %v, %v, want a *FieldError", tt.text, got, err)
			}
		})
	}
}

func FuzzParseInstant(f *testing.F) {
	for _, seed := range []string{"now", "+90m", "tomorrow 9am", "mon 09:00", "2026-04-01", "2026-04-01 09:00 Europe/Berlin", "2026-04-01T09:00:00.5Z"} {
		f.Add(seed)
	}
	now := time.UnixMilli(1775032200000)
	f.Fuzz(func(t *testing.T, text string) {
		at, err := ParseInstant(text, now, nil)
		if err != nil {
			return
		}
		again, err := ParseInstant(formatInstant(at), now, nil)
		if err != nil || !again.Equal(at) {
			t.Errorf("%q is %v, printed %q, which is %v, %v", text, at, formatInstant(at), again, err)
		}
	})
}
