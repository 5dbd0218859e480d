package admincli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// tear makes queues with entries whose task has lost its record, beside a queue
// that is whole.
func tear(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	ctx := context.Background()
	tasks := asynq.NewClientFromRedisClient(client)
	for _, queue := range []string{"torn", "whole"} {
		for i := range 2 {
			if _, err := tasks.Enqueue(asynq.NewTask("log", nil), asynq.TaskID(fmt.Sprintf("%s-%d", queue, i)), asynq.Queue(queue)); err != nil {
				t.Fatal(err)
			}
		}
	}
	held := float64(time.Now().Add(time.Hour).Unix())
	err := errors.Join(client.LPush(ctx, "asynq:{torn}:pending", "gone-1", "gone-2").Err(),
		client.ZAdd(ctx, "asynq:{torn}:archived", redis.Z{Score: 1, Member: "gone-3"}).Err(),
		client.HSet(ctx, "asynq:{torn}:t:gone-1", "state", "active").Err(), // what asynq leaves after it tried
		client.LPush(ctx, "asynq:{torn}:active", "held").Err(),
		client.ZAdd(ctx, "asynq:{torn}:lease", redis.Z{Score: held, Member: "held"}).Err(),
		client.SAdd(ctx, "asynq:queues", "odd").Err(), client.Set(ctx, "asynq:{odd}:pending", "x", 0).Err())
	if err != nil {
		t.Fatal(err)
	}
}

// A queue that has lost records of tasks neither hides the other queues nor
// itself, and doctor mends it.
func TestTornQueuesHideNothing(t *testing.T) {
	r, server := onRedis(t)
	tear(t, server.Client())
	got := r.must("queue", "list", "-o", "json")
	var queues []queueJSON
	if err := json.Unmarshal([]byte(got.stdout), &queues); err != nil {
		t.Fatal(err)
	}
	if len(queues) != 3 || queues[1].Name != "torn" || queues[1].Pending != 4 || queues[1].Archived != 1 || queues[1].Size != 6 || queues[2].Pending != 2 || queues[2].Torn != "" {
		t.Errorf("list: %+v", queues)
	}
	for _, want := range []string{"2 pending entries have no task record (gone-1, gone-2)", "1 archived entry has no task record (gone-3)", "the key asynq:{odd}:pending holds", "admin doctor --fix"} {
		if all := got.stderr + queues[1].Torn; !strings.Contains(all, strings.TrimPrefix(want, "admin doctor ")) {
			t.Errorf("%q is not told: %s", want, all)
		}
	}
	if got := r.must("queue", "stats", "torn"); !strings.Contains(got.stdout, "torn   torn ") || !strings.Contains(got.stderr, "gone-3") {
		t.Errorf("stats: %+v", got)
	}
	if got := r.run("check", "queue", "torn", "--warn", "1h", "--crit", "2h"); got.code != checkWarning || !strings.Contains(got.stdout, "no task record") {
		t.Errorf("check: %+v", got)
	}
	if got := r.must("task", "list", "--queue", "torn", "-o", "name"); got.stdout != "torn-0\ntorn-1\n" || !strings.Contains(got.stderr, "2 tasks in state pending") {
		t.Errorf("task list: %+v", got)
	}
	if got := r.must("task", "list", "--state", "archived", "-o", "json"); got.stdout != "[]\n" || !strings.Contains(got.stderr, "1 task in state archived") {
		t.Errorf("archived: %+v", got)
	}
	if got := r.must("task", "get", "whole-1", "-o", "name"); got.stdout != "whole-1\n" {
		t.Errorf("get: %+v", got)
	}
	if got := r.run("doctor"); !strings.Contains(got.stdout, `queue "torn" is torn: 2 pending entries`) || !strings.Contains(got.stdout, `queue "odd" is torn`) {
		t.Errorf("doctor: %s", got.stdout)
	}
	mended(t, r)
}

// mended repairs and finds only what a repair must leave: an entry that a server
// may have in its hands, and a key of another type.
func mended(t *testing.T, r *rig) {
	t.Helper()
	if got := r.run("doctor", "--fix"); !strings.Contains(got.stdout, `fixed    queues       queue "torn"`) {
		t.Errorf("--fix: %s", got.stdout)
	}
	got := r.run("doctor").stdout
	if strings.Contains(got, "gone-") || !strings.Contains(got, "1 active entry has no task record (held)") {
		t.Errorf("after --fix: %s", got)
	}
	if got := r.must("task", "list", "-o", "name").stdout; got != "torn-0\ntorn-1\nwhole-0\nwhole-1\n" {
		t.Errorf("tasks after --fix: %q", got)
	}
}
