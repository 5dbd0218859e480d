package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

func TestPushMakesOneTaskOfTheFiring(t *testing.T) {
	d := definition(retries(0), func(d *schedule.Schedule) {
		d.Headers = map[string]string{"X-Team": "billing"}
		d.Payload = []byte("\x00\xff not json")
		d.Timeout, d.Retention, d.Effect = 1500*time.Millisecond, time.Second, schedule.AtMostOnce
	})
	onRedis(t, d, func(b *bench) {
		id := firingAt(1)
		for range 3 {
			b.push(id)
		}
		info := b.task(string(id))
		if info == nil {
			b.t.Fatal("no task under the firing ID")
		}
		if got := string(info.Payload); got != string(d.Payload) {
			b.t.Errorf("payload = %q, want it untouched", got)
		}
		want := map[string]string{
			"X-Team": "billing", HeaderFiring: string(id), HeaderSchedule: "nightly", HeaderGeneration: "7",
			HeaderScheduledAt: "1893553441000", HeaderToken: "42", HeaderEffect: "at_most_once", HeaderMaxRetry: "0",
		}
		for name, value := range want {
			if info.Headers[name] != value {
				b.t.Errorf("header %s = %q, want %q", name, info.Headers[name], value)
			}
		}
		if len(info.Headers) != len(want) {
			b.t.Errorf("headers = %v, want only those of %v", info.Headers, want)
		}
		if info.Type != d.Type || info.State != asynq.TaskStatePending || info.MaxRetry != 1 ||
			info.Timeout != 2*time.Second || info.Retention != schedule.MinRetention {
			b.t.Errorf("task = %+v", info)
		}
		if len(b.recorder.enqueued) != 1 {
			b.t.Errorf("Enqueued told %d times, want once", len(b.recorder.enqueued))
		}
	})
}

func TestPushLeavesOutWhatDoesNotApply(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		id := claim.ManualFiring("nightly", testGeneration, "req-1")
		if err := b.enqueuer.Push(b.t.Context(), Push{Firing: id, Redrives: 2, Definition: b.definition}); err != nil {
			b.t.Fatal(err)
		}
		info := b.task(string(id) + "~2")
		if info == nil {
			b.t.Fatal("no task under the ID of the second re-drive")
		}
		for _, name := range []string{HeaderScheduledAt, HeaderToken, HeaderEffect} {
			if value, ok := info.Headers[name]; ok {
				b.t.Errorf("header %s = %q, want none", name, value)
			}
		}
		if info.MaxRetry != 3 || info.Retention != 10*time.Minute || info.Headers[HeaderMaxRetry] != "3" {
			b.t.Errorf("defaults: %+v", info)
		}
	})
}

func TestPushRefuses(t *testing.T) {
	good := definition()
	with := func(change func(*schedule.Schedule)) schedule.Schedule { return definition(change) }
	tests := []struct {
		name  string
		push  Push
		field string
	}{
		{"a reserved header", Push{Definition: with(func(d *schedule.Schedule) { d.Headers = map[string]string{"Belfry-Firing": "x"} })}, "headers"},
		{"a reserved header in other case", Push{Definition: with(func(d *schedule.Schedule) { d.Headers = map[string]string{"belfry-X": "x"} })}, "headers"},
		{"a firing of another schedule", Push{Firing: "other:7:1000", Definition: good}, "definition.id"},
		{"no firing ID", Push{Firing: "nightly", Definition: good}, "firing"},
		{"a negative re-drive", Push{Redrives: -1, Definition: good}, "redrives"},
		{"braces in the queue", Push{Queue: "}x", Definition: good}, "queue"},
		{"a blank type", Push{Definition: with(func(d *schedule.Schedule) { d.Type = " " })}, "type"},
	}
	onRedis(t, good, func(b *bench) {
		for _, tt := range tests {
			if tt.push.Firing == "" {
				tt.push.Firing = firingAt(1)
			}
			var field *schedule.FieldError
			err := b.enqueuer.Push(b.t.Context(), tt.push)
			if !errors.As(err, &field) || field.Field != tt.field {
				b.t.Errorf("%s: Push = %v, want a FieldError of %s", tt.name, err, tt.field)
			}
		}
		if n := b.redis.Exists(b.t.Context(), b.key("pending")).Val(); n != 0 {
			b.t.Errorf("something was enqueued")
		}
	})
}

// B120: a task with the very ID was made by hand.
func TestPushTellsForeignTaskFromEarlierPush(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		id := firingAt(1)
		client := asynq.NewClientFromRedisClient(b.redis)
		if _, err := client.Enqueue(asynq.NewTask("by:hand", nil), asynq.TaskID(string(id)), asynq.Queue(b.definition.Queue)); err != nil {
			b.t.Fatal(err)
		}
		err := b.enqueuer.Push(b.t.Context(), Push{Firing: id, Definition: b.definition})
		if !errors.Is(err, ErrForeignTask) {
			b.t.Fatalf("Push = %v, want ErrForeignTask", err)
		}
		if !strings.Contains(err.Error(), string(id)) || !strings.Contains(err.Error(), "by:hand") {
			b.t.Errorf("error %q names neither the firing nor the type of the other task", err)
		}
	})
}

func TestPushTakesConflictForSuccess(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(b *bench, id claim.FiringID)
	}{
		{"archived", func(b *bench, id claim.FiringID) {
			if err := b.inspector.ArchiveTask(b.definition.Queue, string(id)); err != nil {
				b.t.Fatal(err)
			}
		}},
		{"stub of lost data (K3)", func(b *bench, id claim.FiringID) { b.loseData(id) }},
		{"queue vanished from asynq's set", func(b *bench, id claim.FiringID) {
			b.redis.SRem(b.t.Context(), queuesKey, b.definition.Queue)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onRedis(t, definition(), func(b *bench) {
				id := firingAt(1)
				b.push(id)
				tt.prepare(b, id)
				b.push(id)
				if !b.redis.SIsMember(b.t.Context(), queuesKey, b.definition.Queue).Val() {
					b.t.Error("the queue is not in asynq's set of queues")
				}
			})
		})
	}
}

// loseData leaves of the task what asynq makes of one whose hash was evicted
// before it was dequeued.
func (b *bench) loseData(id claim.FiringID) {
	b.t.Helper()
	ctx := b.t.Context()
	b.redis.Del(ctx, b.key("t:"+string(id)), b.key("pending"))
	b.redis.LPush(ctx, b.key("active"), string(id))
	if err := b.redis.HSet(ctx, b.key("t:"+string(id)), "state", "active").Err(); err != nil {
		b.t.Fatal(err)
	}
}

// An ID is free again once asynq has dropped the task; the ledger, not the
// enqueuer, keeps the firing from running twice.
func TestPushAfterTheIDWasFreed(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		id := firingAt(1)
		b.push(id)
		if err := b.inspector.DeleteTask(b.definition.Queue, string(id)); err != nil {
			b.t.Fatal(err)
		}
		b.push(id)
		b.wantTask(string(id), "pending")
	})
}

func TestPushAllAnswersInOrder(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		var pushes []Push
		for i := range 200 {
			pushes = append(pushes, Push{Firing: claim.ScheduledFiring("nightly", 7, time.UnixMilli(int64(1000+i))), Definition: b.definition})
		}
		pushes[17].Firing = "bad"
		errs := b.enqueuer.PushAll(b.t.Context(), pushes)
		for i, err := range errs {
			if (err != nil) != (i == 17) {
				b.t.Errorf("push %d: %v", i, err)
			}
		}
		if n := b.redis.LLen(b.t.Context(), b.key("pending")).Val(); n != 199 {
			b.t.Errorf("%d tasks are pending, want 199", n)
		}
	})
}

func TestPushReportsRedisErrors(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		err := b.enqueuer.Push(ctx, Push{Firing: firingAt(1), Definition: b.definition})
		if err == nil || errors.Is(err, ErrForeignTask) {
			b.t.Errorf("Push with an ended context = %v", err)
		}
	})
}

func TestCloseRefusesLaterPushes(t *testing.T) {
	onRedis(t, definition(), func(b *bench) {
		for range 2 {
			if err := b.enqueuer.Close(); err != nil {
				b.t.Fatal(err)
			}
		}
		if err := b.enqueuer.Push(b.t.Context(), Push{Firing: firingAt(1), Definition: b.definition}); !errors.Is(err, ErrClosed) {
			b.t.Errorf("Push after Close = %v", err)
		}
		if err := b.redis.Ping(b.t.Context()).Err(); err != nil {
			b.t.Errorf("the caller's client was closed: %v", err)
		}
	})
}

func TestNewEnqueuerRefuses(t *testing.T) {
	for _, options := range []EnqueuerOptions{{}, {Redis: newBenchClient(t), Concurrency: -1}} {
		var field *schedule.FieldError
		if _, err := NewEnqueuer(options); !errors.As(err, &field) {
			t.Errorf("NewEnqueuer(%+v) = %v, want a FieldError", options, err)
		}
	}
}

func TestFiringOf(t *testing.T) {
	tests := []struct {
		headers map[string]string
		want    string
	}{
		{nil, "none"},
		{map[string]string{HeaderFiring: "a:1:1000"}, "a:1:1000"},
		{map[string]string{HeaderFiring: "a:1:1000~1"}, "none"},
		{map[string]string{HeaderFiring: "a:1"}, "none"},
		{map[string]string{HeaderFiring: "a:1:mreq"}, "a:1:mreq"},
	}
	for _, tt := range tests {
		got := "none"
		if f, ok := FiringOf(asynq.NewTaskWithHeaders("x", nil, tt.headers)); ok {
			got = string(f.ID)
		}
		if got != tt.want {
			t.Errorf("FiringOf(%v) = %s, want %s", tt.headers, got, tt.want)
		}
	}
	if f, _ := FiringOf(asynq.NewTaskWithHeaders("x", nil, map[string]string{HeaderFiring: "a:1:1000"})); fmt.Sprint(f.ScheduledAt) != "1970-01-01 00:00:01 +0000 UTC" || f.Schedule != "a" || f.Generation != 1 {
		t.Errorf("FiringOf = %+v", f)
	}
}
