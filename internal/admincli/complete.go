package admincli

import (
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// completeTimeout bounds how long a shell waits for names.
const completeTimeout = time.Second

// offer returns the names that read adds and that begin with what was typed, or
// none where no further name belongs. It never fails: a shell that waits for a
// completion has no place for an error.
func (s *session) offer(cmd *cobra.Command, args []string, prefix string, read func(add func(name, about string)) error) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	several := strings.Contains(cmd.Use, "NAME...")
	if len(args) > 0 && !several || s.start(cmd) != nil {
		return nil, directive
	}
	s.timeout = min(s.timeout, completeTimeout)
	var names []string
	err := read(func(name, about string) {
		if strings.HasPrefix(name, prefix) {
			names = append(names, strings.TrimSuffix(name+"\t"+about, "\t"))
		}
	})
	if err != nil {
		return nil, directive
	}
	return names, directive
}

// completeNames offers names that speak for themselves.
func (s *session) completeNames(cmd *cobra.Command, args []string, prefix string, list func() ([]string, error)) ([]string, cobra.ShellCompDirective) {
	return s.offer(cmd, args, prefix, func(add func(name, about string)) error {
		names, err := list()
		for _, name := range names {
			add(name, "")
		}
		return err
	})
}

// completeIDs offers the schedules that exist.
func (s *session) completeIDs(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.offer(cmd, args, prefix, func(add func(name, about string)) error {
		offered := 0
		return s.pages(schedule.ListOptions{}, func(page []schedule.Entry) (bool, error) {
			for _, e := range page {
				if id := string(e.Schedule.ID); strings.HasPrefix(id, prefix) {
					add(id, s.words(e.Schedule))
					offered++
				}
			}
			return offered < pageSize, nil
		})
	})
}

// guardCompletions keeps what others named from the shell and its terminal: a
// name that would have to be escaped is not offered, and what stands beside a
// name is escaped.
func guardCompletions(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		guardCompletions(sub)
	}
	complete := cmd.ValidArgsFunction
	if complete == nil {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		all, directive := complete(cmd, args, prefix)
		var offered []string
		for _, one := range all {
			name, about, found := strings.Cut(one, "\t")
			switch {
			case visible(name) != name:
			case found:
				offered = append(offered, name+"\t"+visible(about))
			default:
				offered = append(offered, name)
			}
		}
		return offered, directive
	}
}
