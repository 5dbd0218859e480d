package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// wantField fails unless err is a *schedule.FieldError about the field.
func wantField(t *testing.T, what string, err error, field string) {
	t.Helper()
	var refused *schedule.FieldError
	if !errors.As(err, &refused) || refused.Field != field {
		t.Errorf("%s: error %v, want a FieldError about %s", what, err, field)
	}
}

func TestNewRefusesOptionsOutOfBounds(t *testing.T) {
	client := redis.NewClient(redistest.Options("127.0.0.1:1"))
	t.Cleanup(func() { _ = client.Close() })
	for field, options := range map[string]redisstore.Options{
		"namespace":      {Namespace: "a b"},
		"shards":         {Shards: -1},
		"skew_allowance": {SkewAllowance: -time.Second},
	} {
		_, err := redisstore.New(client, options)
		wantField(t, fmt.Sprintf("New(%+v)", options), err, field)
	}
}

func TestANamespaceKeepsItsShards(t *testing.T) {
	client, namespace := redistest.Backends()[0].Dial(t), redistest.Namespace()
	for _, asked := range []int{3, 5, 0} {
		store, err := redisstore.New(client, redisstore.Options{Namespace: namespace, Shards: asked})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := store.Shards(t.Context()); err != nil || got != 3 {
			t.Errorf("Shards of a namespace of 3, asked for %d = %d, %v", asked, got, err)
		}
	}
}

func TestANewerFormatIsLeftAlone(t *testing.T) {
	client, namespace := redistest.Backends()[0].Dial(t), redistest.Namespace()
	if err := client.HSet(t.Context(), "belfry:{"+namespace+":ctl}:conf", "fmt", 2, "shards", 1).Err(); err != nil {
		t.Fatal(err)
	}
	store, err := redisstore.New(client, redisstore.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), every10("a"), schedule.PutOptions{}); !errors.Is(err, redisstore.ErrNewerFormat) {
		t.Errorf("Put = %v, want ErrNewerFormat", err)
	}
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) != 1 {
		t.Errorf("keys afterwards: %v", keys)
	}
}

func TestAQueueThatSharesASlotWithAShardIsRefused(t *testing.T) {
	b := newBench(t, redistest.Backends()[0].Dial(t), 1)
	for queue, refused := range map[string]bool{"00": false, "ctl": false, ":00": true, ":ctl": true, ":7": true, ":jobs": false} {
		d := every10("a")
		d.Queue = queue
		if strings.HasPrefix(queue, ":") {
			d.Queue = b.Namespace() + queue
		}
		_, err := b.Put(t.Context(), d, schedule.PutOptions{})
		if refused {
			wantField(t, "Put with queue "+d.Queue, err, "queue")
		} else if err != nil {
			t.Errorf("Put with queue %s: %v", d.Queue, err)
		}
	}
}

func TestADefinitionThatCannotBeUsedHidesNoOther(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		for _, id := range []schedule.ID{"bad-json", "bad-zone", "good"} {
			b.put(every10(id))
		}
		// What another version, or a vandal, may have left.
		b.overwrite("bad-json", "{")
		b.overwrite("bad-zone", `{"id":"bad-zone","expression":"0 2 * * *","timezone":"Mars/Olympus","type":"work"}`)
		page, err := b.List(t.Context(), schedule.ListOptions{})
		if err != nil || len(page.Entries) != 3 {
			t.Fatalf("List = %d entries, %v", len(page.Entries), err)
		}
		for _, entry := range page.Entries {
			if usable := entry.Schedule.ID == "good"; (entry.Invalid == nil) != usable {
				t.Errorf("%s: Invalid = %v", entry.Schedule.ID, entry.Invalid)
			}
			if entry.Status.NextAt.IsZero() {
				t.Errorf("%s has no status", entry.Schedule.ID)
			}
		}
		if _, err := b.Resume(t.Context(), "bad-zone", schedule.ResumeOptions{}); err != nil {
			t.Errorf("Resume of an unusable one: %v", err)
		}
		if repaired := b.put(every10("bad-json")); repaired.Version != 2 || repaired.Created {
			t.Errorf("Put over an unusable one = %+v", repaired)
		}
		for _, id := range []schedule.ID{"bad-zone", "bad-json"} {
			if removed, err := b.Remove(t.Context(), id, schedule.RemoveOptions{}); !removed || err != nil {
				t.Errorf("Remove(%s) = %v, %v", id, removed, err)
			}
		}
	})
}

// overwrite replaces a stored definition behind the store's back.
func (b *bench) overwrite(id schedule.ID, text string) {
	b.t.Helper()
	for shard := range 3 {
		key := fmt.Sprintf("belfry:{%s:%02d}:def", b.Namespace(), shard)
		if b.client.HExists(b.t.Context(), key, string(id)).Val() {
			if err := b.client.HSet(b.t.Context(), key, string(id), text).Err(); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

func TestSkipOneScheduledTime(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		first := b.put(every10("a")).NextAt
		second := first.Add(10 * time.Second)
		for range 2 {
			if err := b.Skip(t.Context(), "a", second); err != nil {
				t.Fatalf("Skip: %v", err)
			}
		}
		wantField(t, "Skip between scheduled times", b.Skip(t.Context(), "a", second.Add(time.Second)), "at")
		if err := b.Skip(t.Context(), "nobody", second); !errors.Is(err, schedule.ErrNotFound) {
			t.Errorf("Skip of an unknown schedule = %v", err)
		}
		b.clock.Add(10 * time.Second)
		c := b.claimOne()
		if c.Kind != claim.ClaimFire {
			t.Fatalf("the first claim = %+v", c)
		}
		if err := b.Skip(t.Context(), "a", first); !errors.Is(err, schedule.ErrLate) {
			t.Errorf("Skip of a claimed time = %v, want ErrLate", err)
		}
		b.complete(c, claim.DecideEnqueued, second)
		b.clock.Add(10 * time.Second)
		c = b.claimOne()
		if c.Kind != claim.ClaimSkip || !c.ScheduledAt.Equal(second) {
			t.Fatalf("the claim of the time to skip = %+v", c)
		}
		result, err := b.Complete(t.Context(), claim.CompleteRequest{Completions: []claim.Completion{{Schedule: "a", Token: c.Token,
			ScheduledAt: second, Decision: claim.DecideVerdict, Verdict: schedule.VerdictSkipped, Next: second.Add(10 * time.Second)}}})
		if err != nil || result.Outcomes[0] != claim.CompleteOK {
			t.Fatalf("Complete = %+v, %v", result, err)
		}
		third := second.Add(10 * time.Second)
		if err := errors.Join(b.Skip(t.Context(), "a", third), b.Unskip(t.Context(), "a", third)); err != nil {
			t.Fatal(err)
		}
		b.clock.Add(10 * time.Second)
		if c = b.claimOne(); c.Kind != claim.ClaimFire {
			t.Errorf("the claim of a time that is skipped no more = %+v", c)
		}
		if verdicts := b.get("a").Verdicts; len(verdicts) != 2 || verdicts[1].Verdict != schedule.VerdictSkipped {
			t.Errorf("verdicts = %+v", verdicts)
		}
	})
}

func TestIsUnavailable(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"a refused connection", refused, true},
		{"a wrapped deadline", fmt.Errorf("redisstore: claim: %w", context.DeadlineExceeded), true},
		{"a cancelled context", context.Canceled, false},
		{"bad input", &schedule.FieldError{Field: "limit"}, false},
		{"not found", schedule.ErrNotFound, false},
		{"a pool without connections", redis.ErrPoolTimeout, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := redisstore.IsUnavailable(tt.err); got != tt.want {
				t.Errorf("IsUnavailable(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
	memory := redistest.InMemory(t)
	store, err := redisstore.New(memory.Client(), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory": true, "READONLY You can't write against a read only replica.": true,
		"CLUSTERDOWN The cluster is down": true, "MASTERDOWN Link with MASTER is down": true, "TRYAGAIN Multiple keys request": true,
		"WRONGTYPE Operation against a key": false, "NOAUTH Authentication required.": false,
	} {
		memory.Server().SetError(answer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := store.Shards(ctx)
		cancel()
		if err == nil || redisstore.IsUnavailable(err) != want {
			t.Errorf("IsUnavailable(%v) = %v, want %v", err, redisstore.IsUnavailable(err), want)
		}
	}
}
