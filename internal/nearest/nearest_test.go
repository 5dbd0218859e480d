package nearest

import "testing"

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b        string
		limit, want int
	}{
		{"", "", 3, 0}, {"queue", "queue", 3, 0}, {"qeue", "queue", 3, 1}, {"queeue", "queue", 3, 1}, {"quaue", "queue", 3, 1},
		{"uqeue", "queue", 3, 1}, {"timezone", "tiemzone", 3, 1}, {"abc", "xyz", 3, 3}, {"abc", "xyz", 2, 3}, {"a", "abcdef", 3, 4}, {"kitten", "sitting", 5, 3},
	} {
		if got, back := Distance(tt.a, tt.b, tt.limit), Distance(tt.b, tt.a, tt.limit); got != tt.want || back != got {
			t.Errorf("Distance(%q, %q, %d) = %d and %d, want %d", tt.a, tt.b, tt.limit, got, back, tt.want)
		}
	}
}

func TestSlip(t *testing.T) {
	for name, candidates := range map[string]map[string]bool{
		"nope":     {"type": false, "top": false, "note": true, "node": true, "nopes": true},
		"date":     {"dates": true, "name": false},
		"tz":       {"at": false, "t": false, "tzs": true, "to": true},
		"x":        {"y": false, "id": false, "xy": false},
		"tiemzone": {"timezone": true, "time_zone": true, "timeout": false},
		"corn":     {"cron": true, "only": false},
		"":         {"id": false, "": false},
	} {
		for candidate, want := range candidates {
			if edits, got := Slip(name, candidate); got != want {
				t.Errorf("Slip(%q, %q) = %d, %t; want %t", name, candidate, edits, got, want)
			}
		}
	}
}
