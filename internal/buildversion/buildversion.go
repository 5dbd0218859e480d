// Package buildversion tells which version of the module a program was built
// from.
package buildversion

import "runtime/debug"

// Read returns the module version, "devel-" and the revision for a build from
// a checkout, "devel" when that is not known, and "unknown" without build
// information.
func Read() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
