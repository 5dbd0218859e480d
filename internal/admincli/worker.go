package admincli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
)

func newWorker(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "worker", Short: "Show the workers of the fleet, and drain one",
		Example: "  admin worker list\n  admin worker get w1"}
	list := &cobra.Command{Use: "list", Short: "List the live workers",
		Example: "  admin worker list\n  admin worker list -o json", Args: arguments(0, 0, "nothing"),
		RunE: func(*cobra.Command, []string) error { return s.listWorkers() }}
	get := &cobra.Command{Use: "get ID", Short: "Show a worker and the tasks that it runs",
		Example: "  admin worker get w1", Args: arguments(1, 1, "ID"), ValidArgsFunction: s.completeWorkers,
		RunE: func(_ *cobra.Command, args []string) error { return s.getWorker(args[0]) }}
	cmd.AddCommand(s.watched(list), get, newDrain(s), newUndrain(s))
	return group(cmd)
}

// A workerJSON is a worker as list and get print it.
type workerJSON struct {
	ID           string         `json:"id"`
	Host         string         `json:"host"`
	PID          int            `json:"pid"`
	Version      string         `json:"version"`
	TimeZoneData string         `json:"timezone_data"`
	Queues       map[string]int `json:"queues"`
	Types        []string       `json:"types"`
	Claims       bool           `json:"claims"`
	State        string         `json:"state"` // working; asked to drain, draining or drained
	Drain        *drainWishJSON `json:"drain"` // null: nobody wants it to drain
	StartedAt    *string        `json:"started_at"`
	SeenAt       *string        `json:"seen_at"`
	SeenAtMS     *int64         `json:"seen_at_ms"`
	Running      []runningJSON  `json:"running"` // empty in a list
}

// A drainWishJSON says who wants a worker to drain.
type drainWishJSON struct {
	Since  *string `json:"since"`
	By     string  `json:"by"`
	Reason string  `json:"reason"`
}

// A runningJSON is a task that a worker runs now.
type runningJSON struct {
	TaskID    string  `json:"task_id"`
	Type      string  `json:"type"`
	Queue     string  `json:"queue"`
	StartedAt *string `json:"started_at"`
	Deadline  *string `json:"deadline"`
}

func (s *session) workerJSON(m claim.Member) workerJSON {
	in := s.location(time.UTC)
	v := workerJSON{ID: m.ID, Host: m.Host, PID: m.PID, Version: m.Version, TimeZoneData: m.TimeZone, Queues: m.Queues, Types: m.Types,
		Claims: m.Claims, State: workerState(m), StartedAt: iso(m.Started, in), SeenAt: iso(m.Seen, in), SeenAtMS: millis(m.Seen), Running: []runningJSON{}}
	if m.Drain.Wanted() {
		v.Drain = &drainWishJSON{Since: iso(m.Drain.Since, in), By: m.Drain.By, Reason: m.Drain.Reason}
	}
	if v.Types == nil {
		v.Types = []string{}
	}
	if v.Queues == nil {
		v.Queues = map[string]int{}
	}
	return v
}

// members reads the live workers.
func (s *session) members() ([]claim.Member, error) {
	stores, err := s.store()
	if err != nil {
		return nil, err
	}
	var members []claim.Member
	err = s.within(func(ctx context.Context) (err error) {
		members, err = stores.Roster.Members(ctx, workerMaxAge)
		return err
	})
	return members, err
}

func (s *session) listWorkers() error {
	members, err := s.members()
	if err != nil {
		return err
	}
	views, v := []workerJSON{}, view{}
	for _, m := range members {
		views, v.names = append(views, s.workerJSON(m)), append(v.names, m.ID)
	}
	v.data = views
	v.table = func(w io.Writer) {
		if len(members) == 0 {
			s.note("no live worker; start one, nothing fires without")
			return
		}
		t := newTable("ID", "HOST", "STATE", "CLAIMS", "QUEUES", "TYPES", "UP", "SEEN", "VERSION")
		for _, m := range members {
			claims := cell{"yes", green}
			if !m.Claims {
				claims = cell{"no", dim}
			}
			t.addCells(cell{text: m.ID}, cell{text: fmt.Sprintf("%s:%d", m.Host, m.PID)}, workerStateCell(m), claims, cell{text: weights(m.Queues)},
				cell{text: fmt.Sprint(len(m.Types))}, cell{text: span(s.env.Now().Sub(m.Started))}, cell{text: relative(m.Seen, s.env.Now())},
				cell{text: m.Version})
		}
		t.flush(w, s.painted(s.env.Terminal.Stdout))
	}
	if err := s.emit(v); err != nil {
		return err
	}
	if s.tabular() {
		s.noteZoneData(members)
		s.footer(count(len(members), "worker"))
	}
	return nil
}

// noteZoneData says which workers compute fire times from other time zone data
// than this program.
func (s *session) noteZoneData(members []claim.Member) {
	ours := s.env.TimeZoneData()
	for _, m := range members {
		if m.TimeZone != "" && m.TimeZone != ours {
			s.note("%s has time zone data %s, this program %s: after a change of law they may disagree about when; see admin doctor", visible(m.ID), visible(m.TimeZone), ours)
		}
	}
}

// weights renders queues with their weights.
func weights(queues map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, queues[name]))
	}
	if len(parts) == 0 {
		return none
	}
	return strings.Join(parts, ",")
}

func (s *session) getWorker(id string) error {
	m, _, err := s.member(id)
	if err != nil {
		return err
	}
	return s.showWorker(m)
}

// member finds one live worker among all.
func (s *session) member(id string) (claim.Member, []claim.Member, error) {
	members, err := s.members()
	if err != nil {
		return claim.Member{}, nil, err
	}
	var names []string
	for _, m := range members {
		if m.ID == id {
			return m, members, nil
		}
		names = append(names, m.ID)
	}
	near := didYouMean(id, names)
	if near == "" {
		near = "; see admin worker list"
	}
	return claim.Member{}, nil, codedErrorf(exitNotFound, "no live worker is called %q%s", clip(id, 60), near)
}

func (s *session) showWorker(m claim.Member) error {
	running, err := s.running(m)
	if err != nil {
		return err
	}
	in := s.location(time.UTC)
	v := s.workerJSON(m)
	var lines []string
	for _, r := range running {
		v.Running = append(v.Running, runningJSON{r.TaskID, r.TaskType, r.Queue, iso(r.Started, in), iso(r.Deadline, in)})
		lines = append(lines, fmt.Sprintf("%s  %s, for %s", r.TaskID, r.TaskType, span(s.env.Now().Sub(r.Started))))
	}
	return s.emit(view{data: v, names: []string{m.ID}, table: func(w io.Writer) {
		fmt.Fprintln(w, visible(m.ID))
		f := &sheet{}
		f.add("host", fmt.Sprintf("%s, process %d", m.Host, m.PID))
		f.add("version", m.Version+", time zone data "+m.TimeZone)
		f.add("state", drainWords(m, s.env.Now(), in))
		f.add("claims", map[bool]string{true: "schedules", false: "nothing: it only runs tasks"}[m.Claims])
		f.add("queues", weights(m.Queues))
		f.add("types", strings.Join(m.Types, ", "))
		f.add("started", when(m.Started, s.env.Now(), in))
		f.add("seen", when(m.Seen, s.env.Now(), in))
		f.add("running", append(lines, map[bool]string{true: "nothing", false: ""}[len(lines) == 0])...)
		f.write(w)
	}})
}

// drainWords say whether a worker drains, and who wants it.
func drainWords(m claim.Member, now time.Time, in *time.Location) string {
	text := map[string]string{"working": "works", "asked": "was asked to drain and has not heard of it", "draining": "takes no new work and ends what it runs",
		"drained": "drained: takes no new work and runs nothing"}[workerState(m)]
	if !m.Drain.Wanted() {
		return text
	}
	return strings.TrimSpace(text+", since "+when(m.Drain.Since, now, in)+" "+m.Drain.String()) + "; admin worker undrain takes it back"
}

// running finds what the process of a worker runs, by asynq's own account.
func (s *session) running(m claim.Member) ([]*asynq.WorkerInfo, error) {
	if s.stores.Tasks == nil {
		return nil, nil
	}
	servers, err := s.stores.Tasks.Servers()
	if err != nil {
		return nil, err
	}
	var all []*asynq.WorkerInfo
	for _, server := range servers {
		if server.Host == m.Host && server.PID == m.PID {
			all = append(all, server.ActiveWorkers...)
		}
	}
	slices.SortFunc(all, func(a, b *asynq.WorkerInfo) int { return a.Started.Compare(b.Started) })
	return all, nil
}

func (s *session) completeWorkers(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.completeNames(cmd, args, prefix, func() ([]string, error) {
		members, err := s.members()
		var names []string
		for _, m := range members {
			names = append(names, m.ID)
		}
		return names, err
	})
}
