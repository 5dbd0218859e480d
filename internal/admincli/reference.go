package admincli

import "github.com/spf13/cobra"

// Reference returns the tree of commands for those who describe it. It is
// bound to no store: running it is a fault of the caller, see [Run].
func Reference() *cobra.Command { return newRoot(&session{}) }
