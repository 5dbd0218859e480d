package admincli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func namesOf(r result) string { return strings.Join(strings.Fields(r.stdout), " ") }

func TestListInOtherOrders(t *testing.T) {
	r := newRig(t)
	for id, every := range map[string]string{"a": "3h", "b": "1h", "c": "2h", "d": "30m"} {
		r.must("schedule", "create", id, "--every", every, "--type", "log")
	}
	for i, run := range []struct {
		id      schedule.ID
		outcome claim.RunOutcome
	}{{"c", claim.OutcomeFailed}, {"c", claim.OutcomeSucceeded}, {"b", claim.OutcomeFailed}, {"a", claim.OutcomeSucceeded}} {
		r.advance(time.Second)
		r.runOnce(t, run.id, fmt.Sprint(i), run.outcome)
	}
	r.must("schedule", "pause", "d", "--reason", "test")
	for _, want := range []struct{ args, names string }{
		{"", "a b c d"},
		{"--sort name", "a b c d"},
		{"--sort next", "b c a d"}, // d is paused
		{"--sort last", "a b c d"}, // d never ran
		{"--sort fail-rate", "b c a d"},
		{"--sort fail-rate --limit 2", "b c"},
		{"--sort next --state failing", "b"},
		{"--sort last --state paused", "d"},
		{"--sort next [ab]", "b a"},
	} {
		args := append([]string{"schedule", "list", "-o", "name"}, strings.Fields(want.args)...)
		if got := namesOf(r.must(args...)); got != want.names {
			t.Errorf("list %s: %s, want %s", want.args, got, want.names)
		}
	}
}

// A list that sorts keeps what it needs only, and takes no more than it said.
func TestListSortsManyInBoundedMemory(t *testing.T) {
	r := newRig(t)
	r.stores.Catalog = &endless{Catalog: r.stores.Catalog, total: 5000}
	if got := namesOf(r.must("schedule", "list", "--sort", "next", "--limit", "3", "-o", "name")); got != "s4999 s4998 s4997" {
		t.Errorf("of 5000: %s", got)
	}
	r.stores.Catalog = &endless{Catalog: r.stores.Catalog, total: maxSorted + 1}
	got := r.run("schedule", "list", "--sort", "next", "-o", "name")
	if got.code != exitUsage || !strings.Contains(got.stderr, "or --limit") || got.stdout != "" {
		t.Errorf("of too many: exit %d, %s", got.code, got.stderr)
	}
}

// endless lists s0 and so on; the later in the list, the sooner it fires.
type endless struct {
	schedule.Catalog
	total int
}

func (c *endless) entry(i int) schedule.Entry {
	return schedule.Entry{Schedule: schedule.Schedule{ID: schedule.ID(fmt.Sprintf("s%d", i)), Expression: "1h", Type: "log", Queue: "default"},
		Status: schedule.Status{State: schedule.StateActive, NextAt: epoch.Add(time.Duration(c.total-i) * time.Second)}}
}

func (c *endless) List(_ context.Context, o schedule.ListOptions) (schedule.Page, error) {
	start := 0
	if o.After != "" {
		if _, err := fmt.Sscanf(string(o.After), "s%d", &start); err != nil {
			return schedule.Page{}, err
		}
		start++
	}
	var page schedule.Page
	for i := start; i < min(c.total, start+o.Limit); i++ {
		page.Entries = append(page.Entries, c.entry(i))
	}
	if start+o.Limit < c.total {
		page.Next = page.Entries[len(page.Entries)-1].Schedule.ID
	}
	return page, nil
}

func (c *endless) GetMany(_ context.Context, ids []schedule.ID) (map[schedule.ID]schedule.Entry, error) {
	all := map[schedule.ID]schedule.Entry{}
	for _, id := range ids {
		i := 0
		if _, err := fmt.Sscanf(string(id), "s%d", &i); err != nil {
			return nil, err
		}
		all[id] = c.entry(i)
	}
	return all, nil
}

// A rare filter makes the store answer with empty pages; the list goes on to
// the end, or until it has what was asked for.
func TestListGoesOnOverEmptyPages(t *testing.T) {
	r := newRig(t)
	for i := range 30 {
		queue := "default"
		if i%10 == 9 {
			queue = "reports"
		}
		r.must("schedule", "create", fmt.Sprintf("s%02d", i), "--every", "1h", "--type", "log", "--queue", queue)
	}
	r.stores.Catalog = &scanty{r.stores.Catalog}
	for _, want := range []struct{ args, names string }{
		{"--queue reports", "s09 s19 s29"},
		{"--queue reports --limit 2", "s09 s19"},
		{"--queue reports --state active --limit 2", "s09 s19"},
		{"--queue reports --sort next", "s09 s19 s29"},
		{"--queue reports --state paused", ""},
	} {
		args := append([]string{"schedule", "list", "-o", "name"}, strings.Fields(want.args)...)
		if got := namesOf(r.must(args...)); got != want.names {
			t.Errorf("list %s: %q, want %q", want.args, got, want.names)
		}
	}
}

// A scanty catalog looks at one schedule for a page, as the store does at some
// thousands.
type scanty struct{ schedule.Catalog }

func (c *scanty) List(ctx context.Context, o schedule.ListOptions) (schedule.Page, error) {
	one, err := c.Catalog.List(ctx, schedule.ListOptions{After: o.After, Limit: 1})
	if err != nil || len(one.Entries) == 0 {
		return schedule.Page{}, err
	}
	page := schedule.Page{Next: one.Next}
	if e := one.Entries[0]; (o.Queue == "" || e.Schedule.Queue == o.Queue) && (o.State == "" || e.Status.State == o.State) {
		page.Entries = one.Entries
	}
	return page, nil
}
