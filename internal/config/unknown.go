package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/internal/nearest"
)

// prefix starts every variable of Belfry.
const prefix = "BELFRY_"

// elsewhere are variables, or the beginnings of some, that other programs of
// Belfry read.
var elsewhere = []string{"BELFRY_TEST_", "BELFRY_ADMIN_", "BELFRY_CONTEXT"}

// UnknownVariables returns a sentence for each BELFRY_ variable of environ that
// nobody reads, with the nearest name that is read.
func UnknownVariables(environ map[string]string) []string {
	known := map[string]bool{}
	for _, f := range fieldsOf(reflect.TypeFor[Worker]()) {
		known[f.variable] = true
		if f.secret {
			known[f.variable+"_FILE"] = true
		}
	}
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		foreign := slices.ContainsFunc(elsewhere, func(p string) bool { return strings.HasPrefix(name, p) })
		if !strings.HasPrefix(name, prefix) || known[name] || foreign {
			continue
		}
		warning := fmt.Sprintf("%s is not a setting and does nothing", name)
		if near := closest(name, known); near != "" {
			warning += "; did you mean " + near + "?"
		}
		warnings = append(warnings, warning)
	}
	return warnings
}

// maxEdits bounds how far a long name may be from a known one to be taken for
// it.
const maxEdits = 4

// closest compares what follows the prefix, which all names share.
func closest(name string, known map[string]bool) string {
	best, bestEdits := "", maxEdits+1
	for _, candidate := range slices.Sorted(maps.Keys(known)) {
		edits, ok := nearest.Slip(strings.TrimPrefix(name, prefix), strings.TrimPrefix(candidate, prefix))
		if ok && edits < bestEdits {
			best, bestEdits = candidate, edits
		}
	}
	return best
}
