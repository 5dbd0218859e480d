package admincli

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/pkg/claim"
)

// Which time zone data fire times come from is printed, and a difference
// between a worker and this program is said where workers are looked at.
func TestADifferenceOfTimeZoneDataIsSaid(t *testing.T) {
	r := newRig(t)
	if got := r.must("version").stdout; !strings.Contains(got, "time zone data cafe0123") {
		t.Errorf("version prints %q", got)
	}
	const said = "time zone data deadbeef, this program cafe0123"
	if got := r.must("worker", "list"); strings.Contains(got.stderr, "time zone data") {
		t.Errorf("with equal data: %s", got.stderr)
	}
	odd := claim.Member{ID: "odd", Queues: map[string]int{"default": 1}, Claims: true, Types: []string{"log"}, TimeZone: "deadbeef", Started: r.now, Seen: r.now}
	if _, err := r.stores.Roster.Announce(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	if got := r.must("worker", "list"); !strings.Contains(got.stderr, "odd has "+said) {
		t.Errorf("worker list says %q, want %q", got.stderr, said)
	}
	if got := r.must("worker", "get", "odd"); !strings.Contains(got.stdout, "time zone data deadbeef") {
		t.Errorf("worker get prints %q", got.stdout)
	}
	if got := r.run("doctor"); !strings.Contains(got.stdout, "deadbeef") || !strings.Contains(got.stdout, "cafe0123") {
		t.Errorf("doctor: exit %d: %s", got.code, got.stdout)
	}
}
