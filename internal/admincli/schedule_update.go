package admincli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type updateFlags struct {
	definitionFlags
	writeFlags
	unset []string
}

// writeFlags are those of every command that replaces a definition.
type writeFlags struct {
	ifVersion int64
	requestID string
	dryRun    bool
}

func (f *writeFlags) register(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&f.ifVersion, "if-version", 0, "only if the stored version is this one, or exit code 6")
	cmd.Flags().StringVar(&f.requestID, "request-id", "", "the same request within 24 h takes effect once")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check and show everything, write nothing")
}

func (f *writeFlags) check(flags *pflag.FlagSet) error {
	var err error
	if f.requestID != "" {
		err = schedule.ValidateRequestID(f.requestID)
	}
	if flags.Changed("if-version") && f.ifVersion < 1 {
		err = errors.Join(err, &schedule.FieldError{Field: "if-version", Value: fmt.Sprint(f.ifVersion), Allowed: "1 or more"})
	}
	return err
}

func newUpdate(s *session) *cobra.Command {
	f := &updateFlags{}
	cmd := &cobra.Command{
		Use: "update NAME", Short: "Change some fields of a schedule",
		Long: `Change the fields that are named and no others. Counters, history and a pause are
kept. --label and --header set those that are named; --except and --only replace
the list. --unset takes a field away, which gives it its default; labels.NAME
and headers.NAME take one of several. When somebody else changes the schedule at
the same time, the exit code is 6 and nothing is changed.`,
		Example: `  admin schedule update nightly-report --tz Europe/Berlin
  admin schedule update nightly-report --cron '0 3 * * *' --if-version 1
  admin schedule update billing-close --unset labels.team --unset catch_up --missed latest --dry-run`,
		Args:              arguments(1, 1, "NAME"),
		ValidArgsFunction: s.completeIDs,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.update(cmd, f, args) },
	}
	f.definitionFlags.register(cmd)
	f.writeFlags.register(cmd)
	cmd.Flags().StringArrayVar(&f.unset, "unset", nil, "take this field away, such as catch_up or labels.team; may be repeated")
	return cmd
}

// notUpdated are flags of update that name no field of the definition.
var notUpdated = []string{"if-version", "request-id", "dry-run"}

// named reports whether any field was.
func (f *updateFlags) named(cmd *cobra.Command) bool {
	found := false
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *flagType) {
		found = found || flag.Changed && !slices.Contains(notUpdated, flag.Name)
	})
	return found
}

func (s *session) update(cmd *cobra.Command, f *updateFlags, args []string) error {
	if err := f.check(cmd.Flags()); err != nil {
		return err
	}
	if !f.named(cmd) {
		return usageErrorf("what should change? name fields, such as --cron '0 3 * * *' or --unset catch_up; pause and resume are commands of their own")
	}
	entries, err := s.named(args)
	if err != nil {
		return err
	}
	e := entries[0]
	definition, err := unset(e.Schedule, f.unset)
	if err == nil {
		err = errors.Join(f.specFlags.change(cmd.Flags(), &definition, s.env.Now()), f.task(s, cmd.Flags(), &definition))
	}
	if err != nil {
		return err
	}
	return f.fromFlags(s.replace(e, definition, f.writeFlags))
}

// unset takes fields away. The definition is the same otherwise.
func unset(d schedule.Schedule, names []string) (schedule.Schedule, error) {
	if len(names) == 0 {
		return d, nil
	}
	text, err := marshal(d)
	fields := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	for _, name := range names {
		if err == nil {
			err = unsetOne(fields, name)
		}
	}
	if err == nil {
		text, err = marshal(fields)
	}
	if err != nil {
		return d, err
	}
	var out schedule.Schedule
	return out, json.Unmarshal(text, &out)
}

// needed fields have no default, or a command of their own.
var needed = []string{"id", "type", "expression", "specs", "paused", "payload_base64"}

func unsetOne(fields map[string]json.RawMessage, name string) error {
	whole, part, one := strings.Cut(name, ".")
	allowed := slices.DeleteFunc(scheduleShape.keys(), func(key string) bool { return slices.Contains(needed, key) })
	slices.Sort(allowed)
	if !slices.Contains(allowed, whole) || one && scheduleShape.fields[whole].kind != shapeTextMap {
		near := strings.TrimPrefix(didYouMean(whole, allowed), "; ")
		return &schedule.FieldError{Field: "unset", Value: name, Allowed: strings.Join(allowed, ", "), Hint: near}
	}
	if !one {
		delete(fields, whole)
		if whole == "payload" {
			delete(fields, "payload_base64")
		}
		return nil
	}
	texts := map[string]string{}
	if fields[whole] != nil {
		if err := json.Unmarshal(fields[whole], &texts); err != nil {
			return err
		}
	}
	if _, there := texts[part]; !there {
		return &schedule.FieldError{Field: "unset", Value: name, Allowed: or(pairs(texts), "nothing: it has no "+whole)}
	}
	delete(texts, part)
	text, err := marshal(texts)
	fields[whole] = text
	return err
}

// change writes the flags of the spec that were given into a stored
// definition.
func (f *specFlags) change(flags *pflag.FlagSet, d *schedule.Schedule, now time.Time) error {
	if f.kinds() > 1 {
		return usageErrorf("give one of --cron, --every, --at, --after and --expression at most")
	}
	if err := f.changeZone(flags, d); err != nil {
		return err
	}
	name := d.Timezone
	if len(d.Specs) == 1 && d.Specs[0].Timezone != "" {
		name = d.Specs[0].Timezone
	}
	location := time.UTC
	if name != "" {
		var err error
		if location, err = specZone(name); err != nil {
			return err
		}
	}
	if flags.Changed("limit") {
		d.Limit = f.limit
	}
	return errors.Join(f.changeSpec(d, now, location), durationInto(&d.Jitter, "jitter", f.jitter),
		instantInto(&d.Starts, "starts", f.starts, now, location), instantInto(&d.Ends, "ends", f.ends, now, location))
}

// changeZone sets the schedule's zone, and refuses to when that would not
// change when it fires.
func (f *specFlags) changeZone(flags *pflag.FlagSet, d *schedule.Schedule) error {
	if !flags.Changed("tz") {
		return nil
	}
	if _, err := specZone(f.zone); err != nil {
		return err
	}
	for _, spec := range d.Specs {
		if spec.Timezone != "" && f.kinds() == 0 {
			return &schedule.FieldError{Field: "timezone", Value: f.zone, Allowed: "no change here: a spec has the zone " + spec.Timezone + " of its own, which wins",
				Hint: "give the spec with the zone, as --cron E --tz Z, or use admin schedule edit"}
		}
	}
	d.Timezone = f.zone
	return nil
}

// changeSpec replaces the one spec.
func (f *specFlags) changeSpec(d *schedule.Schedule, now time.Time, location *time.Location) error {
	every := len(d.Specs) == 1 && d.Specs[0].Every > 0
	switch {
	case f.kinds() == 0 && f.offset == "":
		return nil
	case len(d.Specs) > 1:
		return usageErrorf("the schedule has %d specs and a flag could only replace them all: use admin schedule edit", len(d.Specs))
	case f.kinds() == 0 && !every:
		return usageErrorf("--offset needs --every")
	case f.kinds() == 0:
		f.every = schedule.FormatDuration(d.Specs[0].Every)
	}
	old := d.Specs
	d.Expression, d.Specs = "", nil
	if err := f.fillSpec(d, now, location); err != nil {
		return err
	}
	if len(old) == 1 && len(d.Specs) == 1 && f.zone == "" && sameKind(old[0], d.Specs[0]) {
		d.Specs[0].Timezone = old[0].Timezone
		if f.offset == "" && old[0].Every > 0 {
			d.Specs[0].Anchor = old[0].Anchor
		}
	}
	return nil
}

func sameKind(a, b schedule.SpecDefinition) bool {
	return (a.Cron != "") == (b.Cron != "") && (a.Every > 0) == (b.Every > 0) && (len(a.At) > 0) == (len(b.At) > 0)
}

// replace puts another definition in the place of the one that was read, if
// that is still the stored one, and shows what changed.
func (s *session) replace(e schedule.Entry, definition schedule.Schedule, f writeFlags) error {
	compiled, err := s.compile(definition)
	if err != nil {
		return err
	}
	definition = compiled.Definition()
	changes := differences(e.Schedule, definition)
	if slices.ContainsFunc(changes, func(c change) bool { return slices.Contains(specFields, c.Field) }) {
		if err := checkCreate(compiled, s.env.Now()); err != nil {
			return err
		}
	}
	version := e.Status.Version
	if f.ifVersion > 0 && f.ifVersion != version {
		return outdated(e.Schedule.ID, f.ifVersion)
	}
	ctx, cancel := s.call()
	defer cancel()
	result, err := s.stores.Catalog.Put(ctx, definition, schedule.PutOptions{IfVersion: &version, RequestID: f.requestID, DryRun: f.dryRun})
	if errors.Is(err, schedule.ErrConflict) {
		return outdated(e.Schedule.ID, version)
	}
	if err != nil {
		return err
	}
	r := replaced{before: e, reading: s.reading(definition, compiled, nil), result: result, changes: changes, dryRun: f.dryRun}
	if err := s.emit(view{names: []string{string(definition.ID)}, data: s.replacedJSON(r), table: func(w io.Writer) { s.showReplaced(w, r) }}); err != nil {
		return err
	}
	s.warnUnserved([]schedule.Schedule{definition})
	return nil
}

func outdated(id schedule.ID, version int64) error {
	return codedErrorf(exitConflict, "schedule %q does not have version %d any more: nothing was changed; see admin schedule get %s", id, version, id)
}

// A replaced schedule is one whose definition was put again.
type replaced struct {
	reading
	before  schedule.Entry
	result  schedule.PutResult
	changes []change
	dryRun  bool
}

// next is the pending scheduled time after the put.
func (r replaced) next() time.Time {
	if r.result.Unchanged && r.result.NextAt.IsZero() {
		return r.before.Status.NextAt
	}
	return r.result.NextAt
}

func (s *session) replacedJSON(r replaced) putJSON {
	in := s.location(r.zoneAt(r.next()))
	return putJSON{ID: string(r.definition.ID), Action: actionOf(r.result), DryRun: r.dryRun, Version: r.result.Version,
		Generation: r.result.Generation, NextAt: iso(r.next(), in), NextAtMS: millis(r.next()), Changes: r.changes}
}

func (s *session) showReplaced(w io.Writer, r replaced) {
	action, id := actionOf(r.result), visible(string(r.definition.ID))
	switch {
	case r.result.Unchanged:
		fmt.Fprintf(w, "%s is as asked for already, version %d\n", id, r.result.Version)
	case r.dryRun:
		fmt.Fprintf(w, "%s would be %s; nothing was changed (dry run)\n", id, action)
	default:
		fmt.Fprintf(w, "%s %s, version %d\n", action, id, r.result.Version)
	}
	f := &sheet{}
	f.add("changed", changedLines(r.before.Schedule, r.definition, r.changes)...)
	e := r.before
	e.Schedule, e.Status.NextAt = r.definition, r.next()
	f.add("next", s.next(e))
	f.write(w)
}

// changedLines renders changes for people, one line each.
func changedLines(before, after schedule.Schedule, changes []change) []string {
	var lines []string
	for _, c := range changes {
		from, to := shortValue(c.From), shortValue(c.To)
		if c.Field == "specs" {
			from, to = strings.Join(specText(before), " | "), strings.Join(specText(after), " | ")
		}
		lines = append(lines, fmt.Sprintf("%s: %s → %s", c.Field, or(from, none), or(to, none)))
	}
	return lines
}
