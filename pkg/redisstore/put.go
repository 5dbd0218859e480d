package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// putAttempts bounds how often a Put plans again because the schedule moved
// meanwhile.
const putAttempts = 40

// Pauses before another attempt: up to the first, doubling up to the longest,
// so that many who put the same schedule at once do not meet again.
const (
	firstRetry   = time.Millisecond
	longestRetry = 100 * time.Millisecond
)

// afterRace pauses a random while before another attempt, 0 being the first.
func afterRace(ctx context.Context, attempt int) error {
	timer := time.NewTimer(mathrand.N(min(longestRetry, firstRetry<<min(attempt, 10))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A putting is one definition on its way into the store.
type putting struct {
	updated    *schedule.Compiled
	definition schedule.Schedule
	text       string // the definition as this program writes it
	bytes      string // what is written: text, or the stored bytes that mean the same
	options    schedule.PutOptions
	request    string // options.RequestID, or a drawn one
	almanac    almanac

	known    string             // the definition that was decoded last by before
	compiled *schedule.Compiled // what came of it
}

// preparePut checks everything that can be checked without the stored state.
func (s *Store) preparePut(definition schedule.Schedule, options schedule.PutOptions, all almanac) (*putting, error) {
	if options.RequestID != "" {
		if err := schedule.ValidateRequestID(options.RequestID); err != nil {
			return nil, err
		}
	}
	if v := options.IfVersion; v != nil && *v < 0 {
		return nil, &schedule.FieldError{Field: "if_version", Value: strconv.FormatInt(*v, 10), Allowed: "0 (must not exist) or more"}
	}
	updated, err := schedule.Compile(definition, all.usable())
	if err != nil {
		return nil, err
	}
	p := &putting{updated: updated, definition: updated.Definition(), options: options, request: options.RequestID, almanac: all}
	if s.keys.isReserved(p.definition.Queue) {
		return nil, &schedule.FieldError{Field: "queue", Value: p.definition.Queue,
			Allowed: "a name that does not begin with the namespace and a colon: the queue would share a slot with the ledger"}
	}
	text, err := p.definition.MarshalJSON() // json.Marshal would escape what is in the payload
	if err != nil {
		return nil, fmt.Errorf("redisstore: encode %q: %w", definition.ID, err)
	}
	p.text, p.bytes = string(text), string(text)
	if p.request == "" {
		p.request = rand.Text()
	}
	return p, nil
}

// Put creates the schedule or replaces its definition.
func (s *Store) Put(ctx context.Context, definition schedule.Schedule, options schedule.PutOptions) (schedule.PutResult, error) {
	l, err := s.openToPut(ctx, options)
	if err != nil {
		return schedule.PutResult{}, err
	}
	calendars, err := s.calendarsFor(ctx, definition)
	if err != nil {
		return schedule.PutResult{}, err
	}
	p, err := s.preparePut(definition, options, calendars)
	if err != nil {
		return schedule.PutResult{}, err
	}
	return s.put(ctx, l, p)
}

// openToPut creates a namespace unless nothing is to be written.
func (s *Store) openToPut(ctx context.Context, options schedule.PutOptions) (*layout, error) {
	if options.DryRun {
		return s.peek(ctx)
	}
	return s.open(ctx)
}

// put reads, plans and writes, again when the schedule moved in between.
func (s *Store) put(ctx context.Context, l *layout, p *putting) (schedule.PutResult, error) {
	id := p.definition.ID
	doing := fmt.Sprintf("put %q", id)
	var last observed
	for attempt := range putAttempts {
		o, now, err := s.readOne(ctx, doing, l, id)
		if err != nil {
			return schedule.PutResult{}, err
		}
		last = o
		if err := s.knowCalendars(ctx, p, &o); err != nil {
			return schedule.PutResult{}, err
		}
		p.adopt(&o)
		planned, err := p.plan(&o, now)
		if err != nil {
			return schedule.PutResult{}, err
		}
		if p.options.DryRun {
			return p.foresee(&o, planned)
		}
		answer, err := s.runShard(ctx, doing, lua.Put, l, l.shardOf(id), s.putArguments(l, p, &o, planned)...)
		if err != nil {
			return schedule.PutResult{}, err
		}
		result, err := p.result(answer, &o)
		if !errors.Is(err, errRace) {
			return result, err
		}
		if err := afterRace(ctx, attempt); err != nil {
			return schedule.PutResult{}, wrap(doing, err)
		}
		s.healAfter(ctx, attempt, p.definition)
		if p, err = s.withNewCalendars(ctx, p); err != nil {
			return schedule.PutResult{}, err
		}
	}
	return schedule.PutResult{}, last.raced(doing)
}

// knowCalendars reads the calendars for a definition that stops naming one:
// what it was cannot be told without them.
func (s *Store) knowCalendars(ctx context.Context, p *putting, o *observed) (err error) {
	if o.record.policy&policyCalendar != 0 && !p.almanac.known {
		p.almanac, err = s.readCalendars(ctx)
	}
	return err
}

// withNewCalendars prepares a Put with the calendars of now, when it names
// one: they may have changed since it was prepared.
func (s *Store) withNewCalendars(ctx context.Context, p *putting) (*putting, error) {
	if len(p.definition.CalendarNames()) == 0 {
		return p, nil
	}
	all, err := s.readCalendars(ctx)
	if err != nil || all.version == p.almanac.version {
		return p, err
	}
	fresh, err := s.preparePut(p.definition, p.options, all)
	if err != nil {
		return nil, err
	}
	fresh.request = p.request
	return fresh, nil
}

// errRace reports that the schedule or a calendar that it names moved between
// reading and writing.
var errRace = errors.New("redisstore: changed meanwhile")

// plan decides where the pending scheduled time goes.
func (p *putting) plan(o *observed, now time.Time) (schedule.PutPlan, error) {
	// A retry of a creation must not be refused because its one-shot is past
	// by now: the script knows the request and answers with the first result.
	if !o.exists() && p.options.RequestID == "" {
		if err := p.updated.CheckCreate(now); err != nil {
			return schedule.PutPlan{}, err
		}
	}
	r := &o.record
	if r.highWater.After(now) {
		now = r.highWater
	}
	if r.token != 0 && r.next.After(now) {
		now = r.next // it may be promised before the plan takes effect
	}
	plan := schedule.PlanPut(p.before(o), r.next, p.updated, now)
	return plan, nil
}

// before returns the stored definition; nil when there is none, or none that
// this program can use.
func (p *putting) before(o *observed) *schedule.Compiled {
	if !o.exists() {
		return nil
	}
	if p.known == o.definition {
		return p.compiled
	}
	p.known, p.compiled = o.definition, nil
	var definition schedule.Schedule
	if json.Unmarshal([]byte(o.definition), &definition) == nil {
		if compiled, err := schedule.Compile(definition, p.almanac.calendars); err == nil {
			p.compiled = compiled
		}
	}
	return p.compiled
}

// adopt keeps the stored bytes when they are the same definition in another
// spelling, as programs of before write it: putting it again changes nothing.
func (p *putting) adopt(o *observed) {
	if p.bytes = p.text; !o.exists() || o.definition == p.text {
		return
	}
	before := p.before(o)
	if before == nil {
		return
	}
	if text, err := before.Definition().MarshalJSON(); err == nil && string(text) == p.text {
		p.bytes = o.definition
	}
}

// replaces reports whether the plan moves the pending scheduled time, or when
// it is due.
func (p *putting) replaces(o *observed, plan schedule.PutPlan) bool {
	if !o.exists() || plan.SpecChanged {
		return true
	}
	before := p.before(o)
	moved := !plan.Next.IsZero() && !plan.Next.Equal(o.record.next)
	return moved || before != nil && before.Definition().Jitter != p.definition.Jitter && !plan.Next.IsZero()
}

// foresee says what a Put would do.
func (p *putting) foresee(o *observed, plan schedule.PutPlan) (schedule.PutResult, error) {
	r := &o.record
	if want := p.options.IfVersion; want != nil && *want != r.version {
		return schedule.PutResult{}, p.conflict(r.version)
	}
	result := schedule.PutResult{Version: r.version + 1, Generation: r.generation, NextAt: r.next}
	switch {
	case !o.exists():
		result.Created, result.NextAt = true, instant(millis(plan.Next))
	case o.definition == p.bytes:
		result.Unchanged, result.Version = true, r.version
	case p.replaces(o, plan):
		result.NextAt = instant(millis(plan.Next))
	}
	return result, nil
}

func (p *putting) conflict(stored int64) error {
	return fmt.Errorf("redisstore: put %q: version %d is stored, %d expected: %w", p.definition.ID, stored, *p.options.IfVersion, schedule.ErrConflict)
}

// putArguments packs the arguments of put.lua.
func (s *Store) putArguments(l *layout, p *putting, o *observed, plan schedule.PutPlan) []any {
	d, r := &p.definition, &o.record
	version, term, keep := r.version, drawnRequestTerm, false
	if p.options.RequestID != "" {
		term, keep = requestTerm, true
	}
	if p.options.IfVersion != nil {
		version = *p.options.IfVersion
	}
	before := p.before(o)
	paused := d.Paused && (before == nil || !before.Definition().Paused)
	second := time.Time{}
	if plan.Superseded != nil && before != nil {
		second, _ = before.Next(plan.Superseded.First)
	}
	removed, added := indexChanges(o, p.definition)
	args := []any{string(d.ID), p.bytes, "u" + p.request + ":" + string(d.ID), term.Milliseconds(), flag(keep),
		version, millis(r.next), flag(p.replaces(o, plan)), millis(plan.Next), delayed(plan.Next, plan.NotBefore),
		rangeText(plan.Superseded), millis(second), flag(paused)}
	args = append(args, settingsOf(p.updated).args()...)
	args = append(args, s.keys.wakeChannel(), shardTag(l.shardOf(d.ID)), p.almanac.version, len(removed))
	return append(append(args, anys(removed)...), anys(added)...)
}

// result reads what put.lua answered; errRace asks for another plan.
func (p *putting) result(answer reply, o *observed) (schedule.PutResult, error) {
	status := answer.text(0)
	result := schedule.PutResult{Version: answer.number(1), Generation: answer.number(2), NextAt: answer.time(3), Created: answer.number(4) == 1}
	if answer.err != nil {
		return schedule.PutResult{}, answer.err
	}
	switch status {
	case "OK":
		return result, nil
	case "UNCHANGED":
		result.Unchanged = true
		return result, nil
	case "DUPLICATE":
		if p.options.RequestID == "" {
			result.Created = !o.exists() // this call, sent again by the client
		}
		return result, nil
	case "CONFLICT":
		if p.options.IfVersion != nil {
			return schedule.PutResult{}, p.conflict(result.Version)
		}
		return schedule.PutResult{}, errRace
	case "RACE":
		return schedule.PutResult{}, errRace
	}
	return schedule.PutResult{}, fmt.Errorf("redisstore: put %q: unexpected answer %q", p.definition.ID, status)
}

// indexChanges returns the members of the index that a definition loses and
// gains.
func indexChanges(o *observed, updated schedule.Schedule) (removed, added []string) {
	old := map[string]bool{}
	if o.exists() {
		for _, text := range indexMembers(updated.ID, definitionOf(o)) {
			old[text] = true
		}
	}
	for _, text := range indexMembers(updated.ID, updated) {
		if !old[text] {
			added = append(added, text)
		}
		delete(old, text)
	}
	for text := range old {
		removed = append(removed, text)
	}
	return removed, added
}

// indexMembers returns the members of the index for a definition.
func indexMembers(id schedule.ID, d schedule.Schedule) []string {
	all := []string{idMember(id)}
	for key, value := range d.Labels {
		all = append(all, member(labelPrefix(key, value), id))
	}
	for _, name := range d.CalendarNames() {
		all = append(all, member(calendarPrefix(name), id))
	}
	return all
}
