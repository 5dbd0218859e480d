package admincli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// The orders of the list command.
const (
	sortName     = "name"
	sortNext     = "next"      // soonest first, then those that fire no more
	sortLast     = "last"      // newest run first, then those that never ran
	sortFailRate = "fail-rate" // most failures a run first, then those that never ran
)

// maxSorted bounds how many keys an order other than by name keeps in memory;
// 200,000 take about 30 MB. More need --limit, which keeps no more than that
// many.
const maxSorted = 200_000

// A sortKey is what a list keeps of a schedule while it reads all of them:
// definitions can be large, so that they are read again in the order found.
type sortKey struct {
	id   schedule.ID
	none bool // sorted last
	at   time.Time
	rate float64
}

func (f *listFlags) key(e schedule.Entry) sortKey {
	k := sortKey{id: e.Schedule.ID}
	switch f.sort {
	case sortNext:
		k.at = e.Status.NextAt
		k.none = k.at.IsZero() || e.Status.State != schedule.StateActive
	case sortLast:
		k.at, k.none = e.Status.LastRunAt, e.Status.LastRunAt.IsZero()
	case sortFailRate:
		if k.none = e.Status.RunCount == 0; !k.none {
			k.rate = float64(e.Status.FailCount) / float64(e.Status.RunCount)
		}
	}
	return k
}

func (f *listFlags) compare(a, b sortKey) int {
	if a.none != b.none {
		return map[bool]int{true: 1, false: -1}[a.none]
	}
	order := a.at.Compare(b.at)
	if f.sort != sortNext {
		order = cmp.Or(b.at.Compare(a.at), cmp.Compare(b.rate, a.rate))
	}
	if a.none {
		order = 0
	}
	return cmp.Or(order, cmp.Compare(a.id, b.id))
}

// sorted reads the keys of all that match, and returns the first IDs in order.
func (s *session) sorted(f *listFlags, options schedule.ListOptions) ([]schedule.ID, error) {
	var keys []sortKey
	most := maxSorted
	if f.limit > 0 {
		most = min(most, f.limit)
	}
	err := s.pages(options, func(page []schedule.Entry) (bool, error) {
		for _, e := range page {
			if f.keep(s, e) {
				keys = append(keys, f.key(e))
			}
		}
		if f.limit == 0 && len(keys) > maxSorted {
			return false, &schedule.FieldError{Field: "sort", Value: f.sort, Allowed: fmt.Sprintf("name for more than %d schedules, or --limit", maxSorted)}
		}
		if len(keys) > most+pageSize { // sort now and then, not at each page
			slices.SortFunc(keys, f.compare)
			keys = keys[:most]
		}
		return s.out.err == nil, nil
	})
	slices.SortFunc(keys, f.compare)
	var ids []schedule.ID
	for _, k := range keys[:min(most, len(keys))] {
		ids = append(ids, k.id)
	}
	return ids, err
}

// listSorted lists in an order other than by name: it reads all that match
// once for their order, and those that are shown again.
func (s *session) listSorted(f *listFlags, options schedule.ListOptions, out *listing) error {
	ids, err := s.sorted(f, options)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(ids, pageSize) {
		ctx, cancel := s.call()
		found, err := s.stores.Catalog.GetMany(ctx, chunk)
		cancel()
		if err != nil {
			return err
		}
		for _, id := range chunk {
			e, ok := found[id]
			if !ok || !f.keep(s, e) { // it changed meanwhile
				continue
			}
			if err := out.add(e); err != nil {
				return err
			}
		}
		out.flush()
	}
	return nil
}
