package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
)

// manyPushes returns pushes of as many firings.
func (b *bench) manyPushes(n int) []Push {
	var pushes []Push
	for i := range n {
		firing := claim.ScheduledFiring("nightly", testGeneration, time.UnixMilli(int64(1000+i)))
		pushes = append(pushes, Push{Firing: firing, Definition: b.definition})
	}
	return pushes
}

// pending returns how many tasks wait.
func (b *bench) pending() int64 {
	b.t.Helper()
	n, err := b.redis.LLen(b.t.Context(), b.key("pending")).Result()
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// A wire is a hook that counts round trips with scripts, and can lose replies.
type wire struct {
	mu        sync.Mutex
	pipelines []int // length of each
	single    int
	lose      int // replies of this many pipelines
}

var errLost = errors.New("the reply is lost")

func (w *wire) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			w.mu.Lock()
			w.single++
			w.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if !strings.HasPrefix(cmds[0].Name(), "eval") {
			return err // of a new connection
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pipelines = append(w.pipelines, len(cmds))
		if w.lose == 0 {
			return err
		}
		w.lose--
		for _, cmd := range cmds {
			cmd.SetErr(errLost)
		}
		return errLost
	}
}

// watch puts a wire between the enqueuer and Redis, with asynq's script known.
func (b *bench) watch() *wire {
	b.t.Helper()
	b.push(firingAt(1))
	w := &wire{}
	b.redis.AddHook(w)
	return w
}

func TestPushAllSharesRoundTrips(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		w := b.watch()
		for i, err := range b.enqueuer.PushAll(b.t.Context(), b.manyPushes(300)) {
			if err != nil {
				b.t.Errorf("push %d: %v", i, err)
			}
		}
		if want := []int{128, 128, 44}; !slices.Equal(w.pipelines, want) || w.single != 0 {
			b.t.Errorf("pipelines of %v and %d single calls, want %v and none", w.pipelines, w.single, want)
		}
		if n := b.pending(); n != 301 {
			b.t.Errorf("%d tasks are pending, want 301", n)
		}
	})
}

func TestPushAllKeepsAnswersApart(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		client := asynq.NewClientFromRedisClient(b.redis)
		pushes := b.manyPushes(20)
		b.push(pushes[3].Firing) // an earlier push
		if _, err := client.Enqueue(asynq.NewTask("by:hand", nil), asynq.TaskID(string(pushes[5].Firing)), asynq.Queue(b.definition.Queue)); err != nil {
			b.t.Fatal(err)
		}
		pushes[7].Firing = "bad"
		for i, err := range b.enqueuer.PushAll(b.t.Context(), pushes) {
			if got, want := errors.Is(err, ErrForeignTask), i == 5; got != want {
				b.t.Errorf("push %d: %v; of a foreign task: %t, want %t", i, err, got, want)
			}
			if got, want := err != nil, i == 5 || i == 7; got != want {
				b.t.Errorf("push %d: %v, want an error: %t", i, err, want)
			}
		}
		if n := b.pending(); n != 19 { // of 20, without the bad one
			b.t.Errorf("%d tasks are pending, want 19", n)
		}
	})
}

func TestPushAllAgainAfterLostReplies(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		w := b.watch()
		w.lose = 1
		pushes := b.manyPushes(50)
		for i, err := range b.enqueuer.PushAll(b.t.Context(), pushes) {
			if err == nil || errors.Is(err, ErrForeignTask) {
				b.t.Errorf("push %d: %v, want an error that says nothing about the task", i, err)
			}
		}
		for i, err := range b.enqueuer.PushAll(b.t.Context(), pushes) {
			if err != nil {
				b.t.Errorf("push %d again: %v", i, err)
			}
		}
		if n := b.pending(); n != 51 {
			b.t.Errorf("%d tasks are pending, want 51: each once", n)
		}
	})
}

// A restarted server does not know asynq's script.
func TestPushAllWithAnUnknownScript(t *testing.T) {
	server := redistest.Start(t, redistest.ServerOptions{})
	b := newBench(t, server.Client(), definition())
	for i, err := range b.enqueuer.PushAll(t.Context(), b.manyPushes(50)) {
		if err != nil {
			t.Errorf("push %d: %v", i, err)
		}
	}
	if n := b.pending(); n != 50 {
		t.Errorf("%d tasks are pending, want 50", n)
	}
}

func TestPushAllWithAnEndedContextEnqueuesNothing(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		w := b.watch()
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		for i, err := range b.enqueuer.PushAll(ctx, b.manyPushes(10)) {
			if !errors.Is(err, context.Canceled) && (err == nil || !strings.Contains(err.Error(), context.Canceled.Error())) {
				b.t.Errorf("push %d: %v, want that the context was cancelled", i, err)
			}
		}
		if n := b.pending(); n != 1 || len(w.pipelines) > 1 {
			b.t.Errorf("%d tasks are pending after pipelines of %v, want the one of before", n, w.pipelines)
		}
	})
}

func TestPushAllInABubble(t *testing.T) {
	inBubble(t, definition(), func(b *bench) {
		for i, err := range b.enqueuer.PushAll(b.t.Context(), b.manyPushes(200)) {
			if err != nil {
				b.t.Errorf("push %d: %v", i, err)
			}
		}
		if n := b.pending(); n != 200 {
			b.t.Errorf("%d tasks are pending, want 200", n)
		}
	})
}

// Queues of a cluster lie on different nodes.
func TestPushAllOnACluster(t *testing.T) {
	backend := redistest.Backends()[2]
	b := newBench(t, backend.Dial(t), definition())
	queue, pushes := "q"+strings.ToLower(rand.Text()[:12]), b.manyPushes(200)
	for i := range pushes {
		pushes[i].Queue = fmt.Sprintf("%s-%d", queue, i%20)
	}
	for range 2 {
		for i, err := range b.enqueuer.PushAll(t.Context(), pushes) {
			if err != nil {
				t.Errorf("push %d: %v", i, err)
			}
		}
	}
	for i := range 20 {
		key := fmt.Sprintf("asynq:{%s-%d}:pending", queue, i)
		if n := b.redis.LLen(t.Context(), key).Val(); n != 10 {
			t.Errorf("%s has %d tasks, want 10", key, n)
		}
	}
}
