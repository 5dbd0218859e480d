package admincli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A change is one field of a definition that differs. From and To are null
// where the field was or is not set.
type change struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

func jsonBool(b bool) json.RawMessage { return json.RawMessage(strconv.FormatBool(b)) }

// differences compares two definitions field by field, defaults filled in.
func differences(before, after schedule.Schedule) []change {
	old, updated := fieldsOf(before), fieldsOf(after)
	names := map[string]bool{}
	for name := range old {
		names[name] = true
	}
	for name := range updated {
		names[name] = true
	}
	var changes []change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(old[name], updated[name]) {
			changes = append(changes, change{Field: name, From: old[name], To: updated[name]})
		}
	}
	return changes
}

func fieldsOf(d schedule.Schedule) map[string]json.RawMessage {
	d.Normalize()
	fields := map[string]json.RawMessage{}
	if text, err := marshal(d); err == nil { // a definition that was compiled always encodes
		_ = json.Unmarshal(text, &fields)
	}
	delete(fields, "paused") // pause and resume decide it, not the definition
	return fields
}

// specFields are the fields that decide when a schedule fires.
var specFields = []string{"expression", "specs", "timezone", "except", "only", "starts", "ends", "jitter", "limit"}

// sameJSON reports whether both are JSON of the same value. Numbers are
// compared as they are written.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	first, ok1 := parseJSON(a)
	second, ok2 := parseJSON(b)
	return ok1 && ok2 && reflect.DeepEqual(first, second)
}

func parseJSON(text []byte) (any, bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil, false
	}
	return v, !decoder.More()
}

// changeLines renders changes for people, one line each.
func (a *applied) changeLines(row appliedRow) []string {
	var before schedule.Schedule
	if row.before != nil {
		before = row.before.Schedule
	}
	lines := changedLines(before, row.definition, row.changes)
	touched := slices.ContainsFunc(row.changes, func(c change) bool { return slices.Contains(specFields, c.Field) })
	if !touched || row.before == nil {
		return lines
	}
	return append(lines, a.nextClockChange(row)...)
}

func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// shownValue is how many columns of a changed value are shown.
const shownValue = 44

func shortValue(v json.RawMessage) string { return clip(string(v), shownValue) }

// An appliedRow is what apply did with one schedule.
type appliedRow struct {
	reading
	result  schedule.PutResult
	action  string
	changes []change
	next    time.Time
	before  *schedule.Entry // what was stored; nil for a new one
	held    schedule.State  // of an existing or paused schedule; "" is active
}

// applied writes what apply did, batch by batch.
type applied struct {
	s           *session
	dryRun      bool
	differences bool // only what differs, with signs
	table       *table
	array       *arrayWriter
}

func (s *session) newApplied(dryRun bool) *applied {
	a := &applied{s: s, dryRun: dryRun, table: newTable("ACTION", "NAME", "NEXT", "DETAIL")}
	a.array = s.newArray()
	return a
}

// actionColors make what differs stand out.
var actionColors = map[string]color{"created": green, "updated": yellow, "unchanged": dim, "failed": red}

func (a *applied) add(row appliedRow) error {
	s, d := a.s, row.definition
	firings := a.firings(row)
	if a.differences && row.action == "unchanged" && firings.empty() {
		return nil
	}
	in := s.location(row.zoneAt(row.next))
	if a.array != nil {
		view := putJSON{ID: string(d.ID), Action: row.action, DryRun: a.dryRun, Version: row.result.Version, Generation: row.result.Generation,
			NextAt: iso(row.next, in), NextAtMS: millis(row.next), Changes: row.changes,
			Firings: firings.json(s)}
		if row.result.Err != nil {
			view.Error = describe(row.result.Err, "")
		}
		return a.array.add(view)
	}
	if s.flags.format == formatName {
		fmt.Fprintln(s.out, visible(string(d.ID)))
		return nil
	}
	next := when(row.next, s.env.Now(), in)
	if row.held != "" && row.held != schedule.StateActive {
		next = none + " (" + string(row.held) + ")"
	}
	details := append(a.details(row), firings.lines(s)...)
	a.table.addCells(cell{a.shownAction(row.action), actionColors[row.action]}, cell{text: string(d.ID)}, cell{text: next}, cell{text: details[0]})
	for _, line := range details[1:] {
		a.table.add("", "", "", line)
	}
	return nil
}

// details says what a reader wants to check: the words of a new "when" with
// its next clock change, the fields of an update, the cause of a failure. It
// has one line at least.
func (a *applied) details(row appliedRow) []string {
	switch {
	case row.result.Err != nil:
		return []string{describe(row.result.Err, "")}
	case row.action == "created":
		return append([]string{row.words()}, a.nextClockChange(row)...)
	case row.action == "updated" && len(row.changes) > 0:
		return a.changeLines(row)
	}
	return []string{""}
}

// nextClockChange is about the next change that moves or drops a time, or else
// the next one: what the clocks do, and what follows on a line of its own, since
// both are wider than a cell.
func (a *applied) nextClockChange(row appliedRow) []string {
	if changes := row.clockChanges(a.s.env.Now()); len(changes) > 0 {
		return strings.SplitN(changes[len(changes)-1], "; ", 2)
	}
	return nil
}

func (a *applied) flush() {
	if a.array == nil && a.s.tabular() && len(a.table.rows) > 0 {
		a.table.flush(a.s.out, a.s.painted(a.s.env.Terminal.Stdout))
	}
}

func (a *applied) close() error {
	a.flush()
	if a.array != nil {
		return a.array.close()
	}
	return nil
}
