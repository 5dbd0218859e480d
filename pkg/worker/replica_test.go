package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// A replica refuses to change the roster, as a read-only replica does. What it
// reads, such as a claim while nothing is due, it answers.
type replica struct{}

func (replica) DialHook(next redis.DialHook) redis.DialHook { return next }

func (replica) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (replica) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		roster := func(arg any) bool { text, ok := arg.(string); return ok && strings.HasSuffix(text, "}:workers") }
		if slices.ContainsFunc(cmd.Args(), roster) {
			err := errors.New("READONLY You can't write against a read only replica.")
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func TestAWorkerOnAReplicaIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newRig(t).node("a", nil)
		n.client.AddHook(replica{})
		n.start()
		time.Sleep(15 * time.Second)
		if err := n.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("Ready = %v, want what the replica refuses", err)
		}
		if err := n.Live(); err != nil {
			t.Errorf("Live = %v, want nil: a restart does not help", err)
		}
		n.halt()
	})
}
