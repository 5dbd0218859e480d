package doctor

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// A Need is a queue and a type that a schedule fires into.
type Need struct{ Queue, Type string }

func compareNeeds(a, b Need) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type))
}

// Schedules sum up all schedules, so that memory does not depend on how many
// there are. The zero value has seen none; call Add for each.
type Schedules struct {
	Needs  map[Need]int   // schedules that can still fire
	Queues map[string]int // the same by queue
	found  map[problem]*sample
}

// A problem is a kind of finding about single schedules.
type problem int

const (
	invalid problem = iota
	overdue
	disabled
	failing
	shortRetention
	shortCatchUp
	problems
)

// A sample is a count with a few names.
type sample struct {
	count int
	names []string
	seen  string // detail of the first
}

// maxNames is how many schedules a finding names.
const maxNames = 5

// overdueAfter is how long after its due time a schedule may stay unclaimed.
const overdueAfter = time.Minute

// defaultAudit is how long a firing stays unlooked at unless configured.
const defaultAudit = 15 * time.Second

// Add takes one more schedule into account. Now is the store's clock; audit is
// [Facts.AuditAfter].
func (s *Schedules) Add(e schedule.Entry, now time.Time, audit time.Duration) {
	if s.Needs == nil {
		s.Needs, s.Queues, s.found = map[Need]int{}, map[string]int{}, map[problem]*sample{}
	}
	if e.Invalid != nil {
		s.note(invalid, e, e.Invalid.Error())
		return
	}
	d := e.Schedule
	d.Normalize()
	if e.Status.State != schedule.StateCompleted {
		s.Needs[Need{d.Queue, d.Type}]++
		s.Queues[d.Queue]++
	}
	switch {
	case e.Status.State == schedule.StateDisabled:
		s.note(disabled, e, e.Status.LastError)
	case e.Status.ConsecutiveFails > 0 && e.Status.State == schedule.StateActive:
		s.note(failing, e, e.Status.LastError)
	}
	if e.Status.State == schedule.StateActive && !e.Probing() && !e.Status.Claimed && !e.Status.DueAt.IsZero() && now.Sub(e.Status.DueAt) > overdueAfter {
		s.note(overdue, e, "due "+e.Status.DueAt.Format(time.RFC3339))
	}
	s.arithmetic(d, e, cmp.Or(audit, defaultAudit))
}

// arithmetic holds the durations of a definition against each other.
func (s *Schedules) arithmetic(d schedule.Schedule, e schedule.Entry, audit time.Duration) {
	if least := max(schedule.MinRetention, 3*audit); d.Retention < least {
		s.note(shortRetention, e, fmt.Sprintf("retention %s, needed %s", d.Retention, least))
	}
	if d.CatchUp == 0 || d.Missed == schedule.MissedSkip {
		return
	}
	if every := interval(d); every > d.CatchUp {
		s.note(shortCatchUp, e, fmt.Sprintf("catch_up %s, fires every %s", d.CatchUp, every))
	}
}

// interval is the smallest fixed rate of a definition, 0 when it has none.
func interval(d schedule.Schedule) time.Duration {
	least := time.Duration(0)
	for _, spec := range d.Specs {
		if spec.Every > 0 && (least == 0 || spec.Every < least) {
			least = spec.Every
		}
	}
	return least
}

func (s *Schedules) note(p problem, e schedule.Entry, seen string) {
	found := s.found[p]
	if found == nil {
		found = &sample{seen: seen}
		s.found[p] = found
	}
	found.count++
	if len(found.names) < maxNames {
		found.names = append(found.names, string(e.Schedule.ID))
	}
}

// advice says for each problem how bad it is and what to do.
var advice = [problems]struct {
	check string
	level Level
	what  string
	do    string
}{
	invalid:        {"definitions", Error, "cannot be used and never fires", "put a definition that this version accepts: admin apply"},
	overdue:        {"overdue", Error, "is overdue and nobody claims it", "see whether workers are alive and reach Redis: admin worker list"},
	disabled:       {"disabled", Warning, "was disabled after too many failures", "find the cause, then: admin schedule resume NAME"},
	failing:        {"failing", Warning, "failed in its last run", "look at its runs: admin schedule history NAME"},
	shortRetention: {"retention", Error, "keeps finished tasks too briefly for the auditor, which may run them again", "raise retention, or lower BELFRY_AUDIT_AFTER in the workers"},
	shortCatchUp:   {"catch_up", Warning, "has a catch_up below its interval, so that nothing is ever caught up", "raise catch_up above the interval, or say missed: skip"},
}

func schedules(f Facts) []Finding {
	var all []Finding
	for p, a := range advice {
		found := f.Schedules.found[problem(p)]
		if found == nil {
			continue
		}
		names := strings.Join(found.names, ", ")
		if found.count > len(found.names) {
			names += fmt.Sprintf(" and %d more", found.count-len(found.names))
		}
		seen := names + ": " + a.what
		if found.seen != "" {
			seen += " (" + found.seen + ")"
		}
		all = append(all, Finding{Check: a.check, Level: a.level, Seen: seen, Do: a.do})
	}
	if len(all) == 0 {
		total := 0
		for _, n := range f.Schedules.Needs {
			total += n
		}
		all = []Finding{{Check: "schedules", Level: OK, Seen: fmt.Sprintf("%s that can fire, none failing, disabled, overdue or unusable", number(total, "schedule"))}}
	}
	return all
}

// maxViolations bounds how many broken invariants are told one by one.
const maxViolations = 20

// invariants are told as errors: no command of ours can break one.
func invariants(f Facts) []Finding {
	if f.CheckErr != nil {
		return []Finding{{Check: "invariants", Level: Unknown, Seen: "not everything could be read: " + f.CheckErr.Error(), Do: "allow HSCAN and ZRANGE for this user, or raise --timeout"}}
	}
	all := Broken(f.Violations)
	if len(all) == 0 {
		all = []Finding{{Check: "invariants", Level: OK, Seen: "index, ledger, verdicts and counters agree"}}
	}
	return all
}

// remedies say what to do about a violation, by its kind.
var remedies = map[redisstore.ViolationKind]string{
	redisstore.ViolationIndex:     "workers repair it within a minute or so, doctor --fix at once; if it stays, make a backup and report it",
	redisstore.ViolationSchedule:  "put it again, which begins it anew: admin apply; what was open of it is given up",
	redisstore.ViolationShard:     "doctor --fix renames it and repairs what follows from the records; if it held records (def, st), admin apply puts the schedules again",
	redisstore.ViolationCalendars: "workers heal it within ten seconds or so, doctor --fix at once; a change of calendars that the store forgot must be made again: admin calendar list, admin calendar put",
	redisstore.ViolationRunLog:    "doctor --fix renames it, and a new log begins; what it held before is lost",
}

// Broken are the findings for violations of the invariants, a summary instead
// of those that are too many.
func Broken(violations []redisstore.Violation) []Finding {
	var all []Finding
	for i, v := range violations {
		if i == maxViolations {
			all = append(all, Finding{Check: "invariants", Level: Error, Seen: fmt.Sprintf("and %d more", len(violations)-i), Do: "as above", Fix: FixIndexes, Summary: true})
			break
		}
		all = append(all, Finding{Check: "invariants", Level: Error, Seen: v.String(), Fix: FixIndexes, Do: remedies[v.Kind]})
	}
	return all
}
