package admincli

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func newRunRetry(s *session) *cobra.Command {
	request := ""
	cmd := &cobra.Command{Use: "retry FIRING", Short: "Run a firing again, as an extra firing",
		Long: `Open an extra firing of the schedule now, with its present definition. A firing
that is settled never runs again under its own ID. The extra firing stands for the
same scheduled time, and has the payload of the firing as long as that is open or
its task is kept (retention); where that is gone it has the payload of the present
definition, and a note says so. The same --request-id within 24 h opens one firing
only.`,
		Example: "  admin run retry cache-warm:1796018822000001:mseed",
		Args:    arguments(1, 1, "FIRING"), RunE: func(_ *cobra.Command, args []string) error { return s.retryRun(args[0], request) }}
	cmd.Flags().StringVar(&request, "request-id", "", "the same request within 24 h takes effect once; default: a drawn one, which is printed")
	return cmd
}

func (s *session) retryRun(text, request string) error {
	firing, err := claim.ParseFiringID(text)
	if err != nil {
		return err
	}
	if request == "" {
		request = "retry-" + rand.Text()
	} else if err := schedule.ValidateRequestID(request); err != nil {
		return err
	}
	entries, err := s.named([]string{string(firing.Schedule)})
	if err != nil {
		return err
	}
	e := entries[0]
	if firing.Generation != e.Status.Generation {
		return codedErrorf(exitConflict, "firing %q is of an earlier schedule %q, which was deleted since; to run the present one: admin schedule trigger %s",
			clip(text, 200), e.Schedule.ID, e.Schedule.ID)
	}
	f, notes, err := s.repeatOf(e, firing)
	if err != nil {
		return err
	}
	for _, note := range notes {
		s.note("%s", note)
	}
	s.note("request ID %s: repeat with --request-id if the answer gets lost", request)
	f.requestID = request
	return s.trigger(f, []string{string(firing.Schedule)})
}

// mostRedrives is up to which re-drive the task of a firing is looked for.
const mostRedrives = 3

// carried finds the payload of a firing and the time that it stood for: in the
// ledger while it is open, then in what asynq keeps of its tasks.
func (s *session) carried(e schedule.Entry, firing claim.Firing) (payload []byte, at time.Time, known bool, err error) {
	f, err := s.openFiring(firing.ID())
	if err != nil {
		return nil, time.Time{}, false, err
	}
	if f != nil && f.Extra != nil && f.Extra.Payload != nil {
		return f.Extra.Payload, f.Extra.ScheduledAt, true, nil
	}
	task, err := s.keptTask(firing.ID())
	switch {
	case err != nil:
		return nil, time.Time{}, false, err
	case task != nil:
		told, _ := queue.FiringOf(asynq.NewTaskWithHeaders(task.Type, task.Payload, task.Headers))
		return task.Payload, told.ScheduledAt, true, nil
	case f != nil: // it is not enqueued yet, and will be with the present definition
		if f.Extra != nil {
			at = f.Extra.ScheduledAt
		}
		return e.Schedule.Payload, at, true, nil
	}
	return nil, time.Time{}, false, nil
}

// keptTask finds the newest task of a firing in any queue, nil when there is
// none.
func (s *session) keptTask(id claim.FiringID) (*asynq.TaskInfo, error) {
	if s.stores.Tasks == nil {
		return nil, nil
	}
	for n := mostRedrives; n >= 0; n-- {
		task, err := s.findTask(id.TaskID(n), "")
		var coded *codedError
		switch {
		case errors.As(err, &coded) && coded.code == exitNotFound:
		case err != nil:
			return nil, err
		case task.Headers[queue.HeaderFiring] == string(id):
			return task, nil
		}
	}
	return nil, nil
}
