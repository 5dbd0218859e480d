package claim_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var firedAt = time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.UTC)

func TestParseFiringIDReadsWhatIsWritten(t *testing.T) {
	t.Parallel()
	long := schedule.ID(strings.Repeat("x", 128))
	tests := []struct {
		name string
		id   string
		want claim.Firing
	}{
		{"a scheduled time", "nightly:7:1893553445678",
			claim.Firing{Schedule: "nightly", Generation: 7, Kind: claim.KindScheduled, ScheduledAt: firedAt}},
		{"a scheduled time after three re-drives", "nightly:7:1893553445678~3",
			claim.Firing{Schedule: "nightly", Generation: 7, Kind: claim.KindScheduled, ScheduledAt: firedAt}},
		{"a trigger", "a.b_c-d:1893456000000001:mreq-1_X",
			claim.Firing{Schedule: "a.b_c-d", Generation: 1893456000000001, Kind: claim.KindManual, Request: "req-1_X"}},
		{"a trigger whose request looks like a time", "a:1:m1893553445678",
			claim.Firing{Schedule: "a", Generation: 1, Kind: claim.KindManual, Request: "1893553445678"}},
		{"a scheduled time of a backfill", "a:1:bjan.1893553445678",
			claim.Firing{Schedule: "a", Generation: 1, Kind: claim.KindBackfill, Request: "jan", ScheduledAt: firedAt}},
		{"the longest schedule ID with the longest request", string(long) + ":1893456000000001:m" + strings.Repeat("r", 36),
			claim.Firing{Schedule: long, Generation: 1893456000000001, Kind: claim.KindManual, Request: strings.Repeat("r", 36)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := claim.ParseFiringID(tt.id)
			if err != nil || got != tt.want {
				t.Fatalf("ParseFiringID(%q) = %+v, %v, want %+v", tt.id, got, err, tt.want)
			}
			id, _, _ := strings.Cut(tt.id, "~")
			if got.ID() != claim.FiringID(id) {
				t.Errorf("%+v.ID() = %q, want %q", got, got.ID(), id)
			}
		})
	}
}

func TestParseFiringIDRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, id string }{
		{"empty", ""},
		{"a schedule alone", "a"},
		{"no key", "a:1"},
		{"an empty key", "a:1:"},
		{"no schedule", ":1:5"},
		{"a schedule that is no ID", "a b:1:5"},
		{"no generation", "a::5"},
		{"a generation that is no number", "a:x:5"},
		{"a generation with a sign", "a:+1:5"},
		{"a generation with leading zeros", "a:01:5"},
		{"a time that is no number", "a:1:soon"},
		{"a time with a sign", "a:1:+5"},
		{"a time with leading zeros", "a:1:005"},
		{"the epoch", "a:1:0"},
		{"a time before the epoch", "a:1:-5"},
		{"a time past all numbers", "a:1:99999999999999999999"},
		{"a trigger without a request", "a:1:m"},
		{"a trigger with a request that is none", "a:1:mx.y"},
		{"a backfill without a time", "a:1:bx"},
		{"a backfill without a name", "a:1:b.5"},
		{"more parts", "a:1:5:6"},
		{"a suffix without a number", "a:1:5~"},
		{"a suffix that is no number", "a:1:5~x"},
		{"zero re-drives", "a:1:5~0"},
		{"two suffixes", "a:1:5~1~2"},
		{"a line break", "a:1:5\n"},
		{"over-long", "a:1:5~" + strings.Repeat("1", 200)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := claim.ParseFiringID(tt.id)
			var refused *schedule.FieldError
			if !errors.As(err, &refused) || refused.Field != "firing" || refused.Value != tt.id {
				t.Errorf("ParseFiringID(%q) = %+v, %v, want a FieldError for firing with that value", tt.id, got, err)
			}
		})
	}
}

func TestFiringIDsOfDifferentKindsNeverMeet(t *testing.T) {
	t.Parallel()
	millis := "1893553445678"
	ids := []claim.FiringID{
		claim.ScheduledFiring("a", 1, firedAt),
		claim.ManualFiring("a", 1, millis),
		claim.Firing{Schedule: "a", Generation: 1, Kind: claim.KindBackfill, Request: millis, ScheduledAt: firedAt}.ID(),
		claim.ScheduledFiring("a", 11, firedAt),
	}
	seen := map[claim.FiringID]bool{}
	for _, id := range ids {
		if seen[id] {
			t.Errorf("%q twice", id)
		}
		seen[id] = true
	}
}

func TestTaskID(t *testing.T) {
	t.Parallel()
	id := claim.ScheduledFiring("a", 1, firedAt)
	for redrives, want := range []string{"a:1:1893553445678", "a:1:1893553445678~1", "a:1:1893553445678~2"} {
		if got := id.TaskID(redrives); got != want {
			t.Errorf("TaskID(%d) = %q, want %q", redrives, got, want)
		}
	}
}

func TestScheduledFiringIgnoresTheLocation(t *testing.T) {
	t.Parallel()
	elsewhere := firedAt.In(time.FixedZone("UTC+5:45", 20700))
	if got, want := claim.ScheduledFiring("a", 1, elsewhere), claim.ScheduledFiring("a", 1, firedAt); got != want {
		t.Errorf("ScheduledFiring in another location = %q, want %q", got, want)
	}
}

func TestParseToken(t *testing.T) {
	t.Parallel()
	for _, token := range []claim.Token{0, 1, 1893456000000001, 1<<63 - 1} {
		if got, err := claim.ParseToken(token.String()); err != nil || got != token {
			t.Errorf("ParseToken(%q) = %d, %v, want %d", token.String(), got, err, token)
		}
	}
	for _, text := range []string{"", "-1", "x", "1.5", "1e3", "9223372036854775808", " 1"} {
		var refused *schedule.FieldError
		if got, err := claim.ParseToken(text); !errors.As(err, &refused) || refused.Field != "token" {
			t.Errorf("ParseToken(%q) = %d, %v, want a FieldError for token", text, got, err)
		}
	}
}

// FuzzParseFiringID wants one ID for one firing: whatever is accepted is what
// the parsed firing is written as.
func FuzzParseFiringID(f *testing.F) {
	for _, seed := range []string{"a:1:5", "a:1:m-", "a:1:bx.5", "a:1:5~1", "a:+1:5", "a:1:05", "A.b_c-d:1893456000000001:1893553445678"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		firing, err := claim.ParseFiringID(s)
		if err != nil {
			return
		}
		id, suffix, _ := strings.Cut(s, "~")
		if string(firing.ID()) != id {
			t.Fatalf("ParseFiringID(%q) = %+v, which is written %q", s, firing, firing.ID())
		}
		if strings.Trim(suffix, "0123456789") != "" {
			t.Fatalf("ParseFiringID(%q) accepted the suffix %q", s, suffix)
		}
		if firing.Schedule.Validate() != nil || firing.Kind != claim.KindManual && firing.ScheduledAt.UnixMilli() <= 0 {
			t.Fatalf("ParseFiringID(%q) = %+v", s, firing)
		}
	})
}
