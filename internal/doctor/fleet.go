package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/pkg/claim"
)

func fleet(f Facts) []Finding {
	all := []Finding{workers(f), timeZones(f), lateness(f)}
	versions := map[string]int{}
	for _, m := range f.Members {
		if m.Version != "" { // a program of one's own need not say
			versions[m.Version]++
		}
	}
	for _, m := range f.Members {
		if !m.Working() {
			all = append(all, Finding{Check: "workers", Level: Warning, Seen: strings.TrimSpace(fmt.Sprintf("%s is drained since %s %s", m.ID, m.Drain.Since.UTC().Format(time.RFC3339), m.Drain)),
				Do: "admin worker undrain " + m.ID + ", or end it, when the reason is gone"})
		}
	}
	if len(versions) > 1 {
		all = append(all, Finding{Check: "versions", Level: Warning, Seen: "workers of different versions: " + strings.Join(slices.Sorted(maps.Keys(versions)), ", "),
			Do: "finish the roll-out; mixed versions are fine while it lasts"})
	}
	return all
}

func workers(f Facts) Finding {
	claiming, draining := 0, 0
	for _, m := range f.Members {
		switch {
		case !m.Claims:
		case m.Drain.Wanted(), m.State == claim.MemberDraining, m.State == claim.MemberDrained:
			draining++
		default:
			claiming++
		}
	}
	finding := Finding{Check: "workers", Level: OK, Seen: fmt.Sprintf("%d alive, %d claim schedules", len(f.Members), claiming)}
	switch {
	case len(f.Members) == 0:
		finding.Level, finding.Seen, finding.Do = Error, "no live worker in this namespace", "start a worker: nothing fires without one"
	case claiming == 0 && draining > 0:
		finding.Level, finding.Do = Error, "admin worker undrain one of them, or start another: those that claim take no new work"
	case claiming == 0:
		finding.Level, finding.Do = Error, "start a worker without BELFRY_SCHEDULE=false: these only run tasks"
	case claiming == 1 && f.Production:
		finding.Level, finding.Do = Warning, "start a second worker: with one, nothing fires while it restarts"
	}
	return finding
}

func timeZones(f Facts) Finding {
	by := map[string][]string{f.TimeZone: {"this program"}}
	for _, m := range f.Members {
		by[m.TimeZone] = append(by[m.TimeZone], m.ID)
	}
	if len(by) == 1 {
		return Finding{Check: "timezones", Level: OK, Seen: "workers and this program have the same time zone data (" + f.TimeZone + ")"}
	}
	var seen []string
	for _, data := range slices.Sorted(maps.Keys(by)) {
		seen = append(seen, fmt.Sprintf("%s: %s", data, strings.Join(by[data], ", ")))
	}
	return Finding{Check: "timezones", Level: Warning, Seen: "different time zone data: " + strings.Join(seen, "; "),
		Do: "build all from one release: where the data differs, the worker that claims decides when a schedule fires"}
}

// lateWarning is how late a schedule may be before somebody should look.
const lateWarning = 30 * time.Second

func lateness(f Facts) Finding {
	late := max(0, f.Stats.Lateness)
	finding := Finding{Check: "lateness", Level: OK, Seen: fmt.Sprintf("%d due and unclaimed, the oldest for %s", f.Stats.Due, late.Round(time.Millisecond))}
	if late > lateWarning {
		finding.Level, finding.Do = Error, "see whether workers are alive, reach Redis and keep up: admin worker list, and their logs"
	}
	return finding
}

// queues judges asynq's queues that schedules use.
func queues(f Facts) []Finding {
	if f.Queues == nil {
		return nil
	}
	var all []Finding
	for _, name := range slices.Sorted(maps.Keys(f.Queues)) {
		q := f.Queues[name]
		used := f.Schedules.Queues[name]
		switch {
		case q.Err != nil:
			all = append(all, Finding{Check: "queues", Level: Unknown, Seen: fmt.Sprintf("queue %q cannot be looked at: %v", name, q.Err),
				Do: "allow this user asynq's keys and scripts (see docs/OPERATIONS.md)"})
		case used > 0 && q.Paused:
			all = append(all, Finding{Check: "queues", Level: Warning, Seen: fmt.Sprintf("queue %q is paused; %s use it", name, number(used, "schedule")),
				Do: "admin queue resume " + name})
		case q.Pending > 0 && !q.Served:
			all = append(all, Finding{Check: "queues", Level: Warning, Seen: fmt.Sprintf("%s in queue %q, which nobody serves", number(q.Pending, "waiting task"), name),
				Do: "start a worker with BELFRY_QUEUES=" + name + "=1, or delete the tasks"})
		}
		if q.Torn != "" {
			all = append(all, torn(name, q))
		}
		if used > 0 && !q.Listed && q.Pending > 0 {
			all = append(all, Finding{Check: "queues", Level: Warning, Seen: fmt.Sprintf("asynq's list of queues lacks %q", name),
				Do: "run admin doctor --fix: the tools of asynq do not see the queue", Fix: FixQueue, About: name})
		}
	}
	all = append(all, unserved(f)...)
	if len(all) == 0 {
		all = []Finding{{Check: "queues", Level: OK, Seen: wellServed(f)}}
	}
	return all
}

func wellServed(f Facts) string {
	if len(f.Schedules.Needs) == 0 {
		return "no schedule that can fire uses a queue"
	}
	return "every queue and type that a schedule uses is served"
}

// torn is what to do about a queue that has lost records.
func torn(name string, q Queue) Finding {
	finding := Finding{Check: "queues", Level: Error, Seen: fmt.Sprintf("queue %q is torn: %s", name, q.Torn), About: name,
		Do: "rename or delete the keys that are not asynq's"}
	if q.Fixable {
		finding.Fix, finding.Do = FixTorn, "run admin doctor --fix: it removes the entries, which nothing can run; was a key below asynq:{"+name+"} deleted by hand?"
	}
	return finding
}

// unserved finds the queues and types of schedules that nobody alive serves.
func unserved(f Facts) []Finding {
	if len(f.Members) == 0 {
		return abandoned(f)
	}
	var all []Finding
	for _, need := range slices.SortedFunc(maps.Keys(f.Schedules.Needs), compareNeeds) {
		n := f.Schedules.Needs[need]
		queue, both := serves(f.Members, need)
		// A plain asynq server says which queues it serves and not which types.
		if both || !queue && f.Queues[need.Queue].Served {
			continue
		}
		finding := Finding{Check: "queues", Level: Error, Seen: fmt.Sprintf("no live worker serves queue %q (%s)", need.Queue, number(n, "schedule")),
			Do: "start a worker with BELFRY_QUEUES=" + need.Queue + "=1, or move the schedules to another queue"}
		if queue {
			finding.Seen = fmt.Sprintf("no live worker of queue %q has a handler for type %q (%s)", need.Queue, need.Type, number(n, "schedule"))
			finding.Do = "add a handler for the type, or start the worker that has it"
		}
		all = append(all, finding)
	}
	return all
}

// abandoned finds, while no worker is alive, the queues of schedules that no
// plain asynq server serves either: one finding for all.
func abandoned(f Facts) []Finding {
	var names []string
	n := 0
	for _, name := range slices.Sorted(maps.Keys(f.Schedules.Queues)) {
		if !f.Queues[name].Served {
			names, n = append(names, name), n+f.Schedules.Queues[name]
		}
	}
	if n == 0 {
		return nil
	}
	shown := strings.Join(names[:min(len(names), maxNames)], ", ")
	if len(names) > maxNames {
		shown += fmt.Sprintf(" and %d more", len(names)-maxNames)
	}
	return []Finding{{Check: "queues", Level: Error, Seen: fmt.Sprintf("nobody serves %s (%s)", shown, number(n, "schedule")),
		Do: "start workers whose BELFRY_QUEUES name them"}}
}

func serves(members []claim.Member, need Need) (queue, both bool) {
	for _, m := range members {
		if m.Serves(need.Queue) {
			queue = true
			both = both || slices.Contains(m.Types, need.Type)
		}
	}
	return queue, both
}

func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
