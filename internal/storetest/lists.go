package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

var listCases = []testCase{
	{"pages follow in order of ID and leave nothing out", listPages},
	{"an empty namespace has one empty page", listEmpty},
	{"labels select, and all must match", listLabels},
	{"labels follow edits and deletions", listLabelsEdited},
	{"the state selects", listState},
	{"the queue selects", listQueue},
	{"a limit that is not one is refused", listLimit},
	{"a page starts after an ID, whether it exists or not", listAfter},
}

// numbered returns IDs whose order is that of the numbers.
func numbered(n int) schedule.ID { return schedule.ID(fmt.Sprintf("s-%05d", n)) }

// listed returns the IDs of all pages.
func (e *env) listed(options schedule.ListOptions) []schedule.ID {
	e.Helper()
	var all []schedule.ID
	for range 10_000 {
		page, err := e.Catalog.List(e.Context(), options)
		e.must("List", err)
		if options.Limit > 0 && len(page.Entries) > options.Limit {
			e.Fatalf("a page of %d entries, want at most %d", len(page.Entries), options.Limit)
		}
		for _, entry := range page.Entries {
			all = append(all, entry.Schedule.ID)
		}
		if page.Next == "" {
			return all
		}
		if page.Next <= options.After {
			e.Fatalf("Next = %q after %q, want progress", page.Next, options.After)
		}
		options.After = page.Next
	}
	e.Fatal("pages without end")
	return nil
}

// lists wants the IDs of all pages, whatever the size of the pages.
func (e *env) lists(options schedule.ListOptions, wants ...schedule.ID) {
	e.Helper()
	for _, limit := range []int{0, 1, 2, 1000} {
		options.Limit = limit
		if got := e.listed(options); !slices.Equal(got, wants) {
			e.Fatalf("List(%+v) = %v, want %v", options, got, wants)
		}
	}
}

func listPages(e *env) {
	const n = 250
	var definitions []schedule.Schedule
	var wants []schedule.ID
	for i := range n {
		definitions = append(definitions, every(numbered((i*37)%n))) // in another order than by ID
		wants = append(wants, numbered(i))
	}
	_, err := e.Catalog.PutMany(e.Context(), definitions, schedule.PutOptions{})
	e.must("PutMany", err)
	for _, limit := range []int{0, 7, 100, 250, 1000} {
		if got := e.listed(schedule.ListOptions{Limit: limit}); !slices.Equal(got, wants) {
			e.Errorf("List with limit %d gave %d IDs, want %d in order", limit, len(got), n)
		}
	}
	page, err := e.Catalog.List(e.Context(), schedule.ListOptions{})
	e.must("List", err)
	want(e, "entries of the default page", len(page.Entries), 100)
	want(e, "Version of an entry", page.Entries[0].Status.Version, 1)
	wantTime(e, "NextAt of an entry", page.Entries[0].Status.NextAt, slot(1))
}

func listEmpty(e *env) {
	page, err := e.Catalog.List(e.Context(), schedule.ListOptions{})
	e.must("List", err)
	want(e, "entries", len(page.Entries), 0)
	want(e, "Next", page.Next, "")
}

func labelled(id schedule.ID, pairs ...string) schedule.Schedule {
	return every(id, func(s *schedule.Schedule) {
		s.Labels = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			s.Labels[pairs[i]] = pairs[i+1]
		}
	})
}

func listLabels(e *env) {
	e.put(labelled("a", "team", "billing", "env", "prod"))
	e.put(labelled("b", "team", "billing", "env", "test"))
	e.put(labelled("c", "team", "bill"))
	e.put(labelled("d", "env", "prod"))
	e.put(every("e"))
	select1 := func(pairs ...string) schedule.ListOptions {
		return schedule.ListOptions{Labels: labelled("x", pairs...).Labels}
	}
	e.lists(select1("team", "billing"), "a", "b")
	e.lists(select1("team", "bill"), "c")
	e.lists(select1("env", "prod"), "a", "d")
	e.lists(select1("team", "billing", "env", "prod"), "a")
	e.lists(select1("team", "billing", "env", "none"))
	e.lists(select1("nobody", "has"))
	e.lists(schedule.ListOptions{}, "a", "b", "c", "d", "e")
}

func listLabelsEdited(e *env) {
	e.put(labelled("a", "team", "one"))
	e.put(labelled("b", "team", "one"))
	one := schedule.ListOptions{Labels: map[string]string{"team": "one"}}
	two := schedule.ListOptions{Labels: map[string]string{"team": "two"}}
	e.lists(one, "a", "b")
	e.put(labelled("a", "team", "two"))
	e.lists(one, "b")
	e.lists(two, "a")
	e.remove("b")
	e.lists(one)
	e.put(every("a"))
	e.lists(two)
	e.lists(schedule.ListOptions{}, "a")
}

func listState(e *env) {
	e.put(every("active"))
	e.put(every("broken", fragile(1, 0)))
	e.put(every("done"))
	e.put(every("paused", func(s *schedule.Schedule) { s.Paused = true }))
	e.advance(period)
	for _, c := range e.claim() {
		completion := enqueued(c)
		if c.Schedule == "done" {
			completion.Next = time.Time{}
		}
		e.completes(completion, claim.CompleteOK)
		if c.Schedule == "broken" {
			e.fail(c.Firing(), claim.FinishDisabled)
		}
	}
	e.lists(schedule.ListOptions{State: schedule.StateActive}, "active")
	e.lists(schedule.ListOptions{State: schedule.StateDisabled}, "broken")
	e.lists(schedule.ListOptions{State: schedule.StateCompleted}, "done")
	e.lists(schedule.ListOptions{State: schedule.StatePaused}, "paused")
}

func listQueue(e *env) {
	e.put(every("a"))
	e.put(every("b", func(s *schedule.Schedule) { s.Queue = "q:1" }))
	e.put(every("c", func(s *schedule.Schedule) { s.Queue = "q:1"; s.Labels = map[string]string{"k": "v"} }))
	e.lists(schedule.ListOptions{Queue: "q:1"}, "b", "c")
	e.lists(schedule.ListOptions{Queue: schedule.DefaultQueue}, "a")
	e.lists(schedule.ListOptions{Queue: "q:1", Labels: map[string]string{"k": "v"}}, "c")
	e.lists(schedule.ListOptions{Queue: "q"})
}

func listLimit(e *env) {
	for _, limit := range []int{-1, 1001} {
		_, err := e.Catalog.List(e.Context(), schedule.ListOptions{Limit: limit})
		wantField(e, fmt.Sprintf("List with limit %d", limit), err, "limit")
	}
}

func listAfter(e *env) {
	for _, id := range []schedule.ID{"a", "b", "c"} {
		e.put(every(id))
	}
	e.lists(schedule.ListOptions{After: "a"}, "b", "c")
	e.lists(schedule.ListOptions{After: "aa"}, "b", "c")
	e.lists(schedule.ListOptions{After: "c"})
}
