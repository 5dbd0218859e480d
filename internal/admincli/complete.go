package admincli

import (
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// completeTimeout bounds how long a shell waits for names.
const completeTimeout = time.Second

// completeIDs offers the IDs that exist. It never fails: a shell that waits
// for a completion has no place for an error.
func (s *session) completeIDs(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if strings.Contains(cmd.Use, "NAME...") {
		// Several names may follow.
	} else if len(args) > 0 {
		return nil, directive
	}
	if s.start(cmd) != nil {
		return nil, directive
	}
	s.timeout = min(s.timeout, completeTimeout)
	var names []string
	err := s.pages(schedule.ListOptions{}, func(page []schedule.Entry) (bool, error) {
		for _, e := range page {
			if id := string(e.Schedule.ID); strings.HasPrefix(id, prefix) {
				names = append(names, id+"\t"+s.words(e.Schedule))
			}
		}
		return len(names) < pageSize, nil
	})
	if err != nil {
		return nil, directive
	}
	return names, directive
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
