package admincli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

type logsFlags struct{ follow, raw bool }

func newRunLogs(s *session) *cobra.Command {
	f := &logsFlags{}
	cmd := &cobra.Command{Use: "logs FIRING", Short: "Show what the handler of a firing left: its output and its errors",
		Long: `Show the attempts of a firing, oldest first, with their errors, and the output
that its handler left as the result of the task: the last 16 KiB that a command
wrote, the status and the first 16 KiB of a response, whatever a handler of your
own writes to task.ResultWriter(). asynq keeps it with the finished task, for the
retention of the schedule (10m by default); an attempt that failed has the end of
its output in its error, which the run log keeps.

Output comes from strangers: what a terminal would obey is shown escaped. With
-o json it is exact, as output_base64 when it is no UTF-8; --raw writes its bytes
and nothing else.

With --follow the command prints each thing as it becomes known: where the
firing waits and why, which worker runs it, that its worker does not answer, how
each attempt ended, and last the output, which there is none of before the end.
The exit code is 0 when it succeeded and 8 when it did not; Ctrl-C ends the
following, not the run. -o jsonl prints one object for each thing; -o json, yaml
and name, and --raw, print once, at the end.`,
		Example: "  admin run logs cache-warm:1796018822000001:mseed\n  admin run logs -f cache-warm:1796018822000001:mseed", Args: arguments(1, 1, "FIRING"),
		RunE: func(_ *cobra.Command, args []string) error { return s.runLogs(f, args[0]) }}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "print what becomes known until the firing has ended")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "write the bytes of the output and nothing else")
	return cmd
}

// A logsJSON is what logs prints.
type logsJSON struct {
	FiringID     string    `json:"firing_id"`
	Schedule     string    `json:"schedule"`
	ScheduledAt  *string   `json:"scheduled_at"` // null for a manual firing
	Open         bool      `json:"open"`         // it has not ended
	Runs         []runJSON `json:"runs"`         // oldest first, as far as the run log holds them
	Kept         bool      `json:"kept"`         // the task is kept, and with it any output
	CompletedAt  *string   `json:"completed_at"` // of the task
	Retention    string    `json:"retention"`    // how long a finished task of the schedule is kept
	Output       *string   `json:"output"`       // null: there is none, or it is no UTF-8
	OutputBase64 string    `json:"output_base64,omitempty"`
}

// A logsView is all that is known of the runs of a firing.
type logsView struct {
	logsJSON
	all  []logged // oldest first
	task *asynq.TaskInfo
	open *claim.OpenFiring // nil: it is not open
}

func (s *session) runLogs(f *logsFlags, text string) error {
	firing, e, err := s.firing(text)
	if err != nil {
		return err
	}
	if f.follow {
		return s.followLogs(f, firing, e)
	}
	return s.showEnded(f, firing, e)
}

func (s *session) showEnded(f *logsFlags, firing claim.Firing, e schedule.Entry) error {
	v, err := s.logsOf(firing, e)
	if err != nil {
		return err
	}
	return s.showLogs(f, v)
}

// logsOf reads all that is known of the runs of a firing.
func (s *session) logsOf(firing claim.Firing, e schedule.Entry) (*logsView, error) {
	open, err := s.openFiring(firing.ID())
	if err != nil {
		return nil, err
	}
	all, err := s.runsOf(e, &runListFlags{limit: maxRuns})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r logged) bool { return r.Firing != firing.ID() })
	slices.Reverse(all)
	task, err := s.newestTask(e, firing.ID())
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && task == nil && open == nil {
		return nil, codedErrorf(exitNotFound, "firing %q left no run and no task: the logs keep the last ones only; see admin run list %s", clip(string(firing.ID()), 200), e.Schedule.ID)
	}
	if len(all) > 0 && all[len(all)-1].Outcome != claim.OutcomeRetrying {
		open = nil // it ended between the two calls
	}
	return &logsView{s.logsJSON(e, firing, all, task, open != nil), all, task, open}, nil
}

func (s *session) logsJSON(e schedule.Entry, firing claim.Firing, all []logged, task *asynq.TaskInfo, open bool) logsJSON {
	in := s.location(s.read(e.Schedule).zoneAt(firing.ScheduledAt))
	d := e.Schedule
	d.Normalize()
	v := logsJSON{FiringID: string(firing.ID()), Schedule: string(firing.Schedule), ScheduledAt: iso(firing.ScheduledAt, in), Open: open,
		Runs: []runJSON{}, Kept: task != nil, Retention: d.Retention.String()}
	for _, r := range all {
		v.Runs = append(v.Runs, s.scheduleRun(r).runJSON)
	}
	if task == nil {
		return v
	}
	v.CompletedAt = iso(task.CompletedAt, in)
	v.Output, v.OutputBase64 = outputOf(task.Result)
	return v
}

// newestTask finds the last task of a firing that was enqueued, which holds its
// result when it has ended: in the schedule's queue or in one that it had before.
func (s *session) newestTask(e schedule.Entry, id claim.FiringID) (*asynq.TaskInfo, error) {
	if s.stores.Tasks == nil {
		return nil, nil
	}
	d := e.Schedule
	d.Normalize()
	queues, err := s.queueNames()
	if err != nil {
		return nil, err
	}
	queues = slices.DeleteFunc(queues, func(name string) bool { return name == d.Queue })
	for redrives := mostRedrives; redrives >= 0; redrives-- {
		for _, name := range append([]string{d.Queue}, queues...) {
			task, err := s.stores.Tasks.GetTaskInfo(name, id.TaskID(redrives))
			if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
				continue
			}
			return task, err
		}
	}
	return nil, nil
}

func (s *session) showLogs(f *logsFlags, v *logsView) error {
	if f.raw {
		if !v.left() {
			s.note("%s", v.whyNone())
			return nil
		}
		_, err := s.out.Write(v.task.Result)
		return err
	}
	return s.emit(view{data: v.logsJSON, names: []string{v.FiringID}, table: func(w io.Writer) {
		fmt.Fprintln(w, visible(v.FiringID))
		sheet := &sheet{}
		for _, r := range v.all {
			name := fmt.Sprintf("attempt %d", r.Attempt)
			if r.Started.IsZero() {
				name = "never ran"
			}
			sheet.add(name, s.attemptLines(r)...)
		}
		if len(v.all) == 0 {
			sheet.add("attempts", map[bool]string{true: "none has ended yet", false: "the run log does not hold them any more"}[v.Open])
		}
		if v.open != nil {
			sheet.add("now", openView(v.open, time.UTC).line())
		}
		sheet.write(w)
		v.writeOutput(w)
	}})
}

// left reports whether there is output.
func (v *logsView) left() bool { return v.task != nil && len(v.task.Result) > 0 }

func (v *logsView) writeOutput(w io.Writer) {
	if !v.left() {
		fmt.Fprintln(w, visible(v.whyNone()))
		return
	}
	fmt.Fprintf(w, "output (%s):\n", bytesOf(len(v.task.Result)))
	writeOutput(w, string(v.task.Result))
}

// attemptLines tell of one attempt.
func (s *session) attemptLines(r logged) []string {
	in := s.location(s.read(r.entry.Schedule).zone)
	lines := []string{fmt.Sprintf("%s, %s", r.Outcome, when(r.Ended, s.env.Now(), in))}
	if !r.Started.IsZero() {
		lines = []string{fmt.Sprintf("%s, ended %s, took %s on %s", r.Outcome, when(r.Ended, s.env.Now(), in), fine(max(0, r.Duration)), or(r.Worker, "no worker")),
			"started " + when(r.Started, s.env.Now(), in)}
	}
	if r.Error != "" {
		lines = append(lines, "error: "+r.Error)
	}
	return lines
}

// whyNone says why there is no output, and how to keep it.
func (v *logsJSON) whyNone() string {
	switch {
	case v.Open:
		return "no output yet: a handler leaves it when it ends; to follow it: admin run logs -f " + shellWord(v.FiringID)
	case v.Kept:
		return "no output: the handler left none"
	case v.lastOutcome() == string(claim.OutcomeCancelled):
		return "no output: the task of a cancelled firing is deleted"
	}
	return fmt.Sprintf("the output is not kept any more, if there was any: asynq keeps a finished task for %s; for longer: admin schedule update %s --retention 24h", span(mustDuration(v.Retention)), v.Schedule)
}

func (v *logsJSON) lastOutcome() string {
	if len(v.Runs) == 0 {
		return ""
	}
	return v.Runs[len(v.Runs)-1].Outcome
}

// mustDuration reads what Duration.String wrote.
func mustDuration(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

// writeOutput writes lines with what a terminal would obey escaped.
func writeOutput(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		var shown []string
		for part := range strings.SplitSeq(line, "\t") {
			shown = append(shown, visible(part))
		}
		fmt.Fprintln(w, "  "+strings.Join(shown, "\t"))
	}
}

// bytesOf renders a number of bytes.
func bytesOf(n int) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
