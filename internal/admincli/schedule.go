package admincli

import (
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newSchedule(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Aliases: []string{"s"}, Short: "Create, show, pause, trigger and delete schedules",
		Example: "  admin schedule list\n  admin s get nightly-report",
	}
	cmd.AddCommand(newList(s), newGet(s), newCreate(s), newUpdate(s), newEdit(s), newMove(s), newPause(s), newResume(s), newTrigger(s),
		newDelete(s), newPreview(s), newHistory(s), newWhy(s), newSkip(s), newUnskip(s), newBackfill(s))
	return group(cmd)
}

// targets are the schedules that a command acts on: named, or selected by
// label.
type targets struct {
	selector []string
	all      bool
}

func (t *targets) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&t.selector, "selector", "l", nil, "those with this label, as k=v; several must all match")
}

// registerAll is for commands that may act on every schedule.
func (t *targets) registerAll(cmd *cobra.Command) {
	t.register(cmd)
	cmd.Flags().BoolVar(&t.all, "all", false, "every schedule of the namespace")
}

// find returns the entries in the order of the arguments, or by ID. It fails
// without having changed anything when a name is unknown.
func (t *targets) find(s *session, args []string) ([]schedule.Entry, error) {
	if len(args) > 0 && len(t.selector) > 0 {
		return nil, usageErrorf("give names or --selector, not both")
	}
	if t.all {
		if len(args) > 0 || len(t.selector) > 0 {
			return nil, usageErrorf("--all is every schedule: give no names and no --selector")
		}
		return s.all(schedule.ListOptions{})
	}
	if len(t.selector) > 0 {
		labels, err := parseLabels("selector", t.selector)
		if err != nil {
			return nil, err
		}
		return s.all(schedule.ListOptions{Labels: labels})
	}
	if len(args) == 0 {
		return nil, usageErrorf("which schedules? give names or --selector k=v")
	}
	return s.named(args)
}

// named looks up schedules by name.
func (s *session) named(args []string) ([]schedule.Entry, error) {
	var ids []schedule.ID
	for _, arg := range args {
		id, err := validID(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	stores, err := s.store()
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.call()
	defer cancel()
	found, err := stores.Catalog.GetMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	var entries []schedule.Entry
	for _, id := range ids {
		entry, ok := found[id]
		if !ok {
			return nil, s.notFound(id)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// all lists every schedule that the options select.
func (s *session) all(options schedule.ListOptions) ([]schedule.Entry, error) {
	var entries []schedule.Entry
	err := s.pages(options, func(page []schedule.Entry) (bool, error) {
		entries = append(entries, page...)
		return true, nil
	})
	return entries, err
}

// pageSize is how many entries one call lists; the most that List allows.
const pageSize = 1000

// firstPage is how many the first call lists, so that a reader sees something
// at once.
const firstPage = 100

// pages calls visit with each page until it returns false.
func (s *session) pages(options schedule.ListOptions, visit func([]schedule.Entry) (bool, error)) error {
	stores, err := s.store()
	if err != nil {
		return err
	}
	rest := options.Limit
	if options.Limit == 0 {
		options.Limit, rest = firstPage, pageSize
	}
	for ; ; options.Limit = rest {
		ctx, cancel := s.call()
		page, err := stores.Catalog.List(ctx, options)
		cancel()
		if err != nil {
			return err
		}
		more, err := visit(page.Entries)
		if err != nil || !more || page.Next == "" {
			return err
		}
		options.After = page.Next
	}
}

// maxNearest bounds how many names are read to find the nearest ones.
const maxNearest = 10 * pageSize

// notFound names the nearest IDs that exist.
func (s *session) notFound(id schedule.ID) error {
	var names []string
	// A failure here costs the hint, not the answer.
	_ = s.pages(schedule.ListOptions{}, func(page []schedule.Entry) (bool, error) {
		for _, e := range page {
			names = append(names, string(e.Schedule.ID))
		}
		return len(names) < maxNearest, nil
	})
	near := didYouMean(string(id), names)
	if near == "" {
		near = "; see admin schedule list"
	}
	return codedErrorf(exitNotFound, "schedule %q does not exist in this namespace%s", id, near)
}

// parseLabels reads k=v pairs.
func parseLabels(field string, pairs []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, list := range pairs {
		for _, pair := range strings.Split(list, ",") {
			name, value, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return nil, &schedule.FieldError{Field: field, Value: pair, Allowed: "k=v, such as team=billing"}
			}
			if _, twice := labels[name]; twice {
				return nil, &schedule.FieldError{Field: field, Value: pair, Allowed: "each name once"}
			}
			labels[name] = value
		}
	}
	return labels, nil
}
