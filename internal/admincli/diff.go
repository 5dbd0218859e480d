package admincli

import (
	"github.com/spf13/cobra"
)

func newDiff(s *session) *cobra.Command {
	f := &applyFlags{plan: true, exitCode: true, differences: true}
	cmd := &cobra.Command{
		Use: "diff -f FILE|DIR|-", Short: "Compare files with what is stored",
		Long: `Show what apply would change, field by field, and which concrete firing times
would appear and vanish. What is the same is counted, not shown. With --prune and
a selector it shows what apply would delete.

Exit codes: 0 when nothing differs, 1 when something does, 2 or more on an
error.`,
		Example: `  admin diff -f changed.yaml
  admin diff -f changed.yaml --prune -l team=billing -o jsonl`,
		Args: arguments(0, 0, "-f FILE"),
		RunE: func(*cobra.Command, []string) error { return f.outcome(s.apply(f)) },
	}
	cmd.Flags().StringArrayVarP(&f.files, "file", "f", nil, "file, directory, or - for standard input; may be repeated")
	cmd.Flags().BoolVar(&f.exitCode, "exit-code", true, "end with 1 when something differs; --exit-code=false ends with 0")
	f.pruneFlags.register(cmd)
	return cmd
}

// signs stand for the actions in the output of diff.
var signs = map[string]string{"created": "+", "updated": "~", "unchanged": "=", "deleted": "-", "failed": "!"}

// shownAction is the action as the command words it.
func (a *applied) shownAction(action string) string {
	if a.differences {
		return signs[action]
	}
	return action
}
