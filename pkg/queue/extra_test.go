package queue

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
)

var standsFor = time.Date(2029, 12, 24, 18, 0, 0, int(5*time.Millisecond), time.UTC)

// wantExtra wants a task with that payload, whose handler sees standsFor.
func (b *bench) wantExtra(taskID, payload string) {
	b.t.Helper()
	info := b.task(taskID)
	if info == nil {
		b.t.Fatalf("no task %s", taskID)
	}
	f, ok := FiringOf(asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers))
	if string(info.Payload) != payload || !ok || !f.ScheduledAt.Equal(standsFor) || f.Kind != claim.KindManual {
		b.t.Errorf("task %s has payload %q and firing %+v, want %q and %s", taskID, info.Payload, f, payload, standsFor)
	}
}

func TestPushOfAnExtra(t *testing.T) {
	d := definition()
	d.Payload = []byte("of the definition")
	onRedis(t, d, func(b *bench) {
		for request, tt := range map[string]struct {
			extra *claim.Extra
			want  string
		}{
			"both":  {&claim.Extra{Payload: []byte("mine|\x00"), ScheduledAt: standsFor}, "mine|\x00"},
			"empty": {&claim.Extra{Payload: []byte{}, ScheduledAt: standsFor}, ""},
			"time":  {&claim.Extra{ScheduledAt: standsFor}, "of the definition"},
		} {
			id := claim.ManualFiring("nightly", testGeneration, request)
			if err := b.enqueuer.Push(b.t.Context(), Push{Firing: id, Definition: b.definition, Extra: tt.extra}); err != nil {
				b.t.Fatal(err)
			}
			b.wantExtra(string(id), tt.want)
		}
		id := claim.ManualFiring("nightly", testGeneration, "payload")
		push := Push{Firing: id, Definition: b.definition, Extra: &claim.Extra{Payload: []byte("7")}}
		if err := b.enqueuer.Push(b.t.Context(), push); err != nil {
			b.t.Fatal(err)
		}
		if info := b.task(string(id)); string(info.Payload) != "7" || info.Headers[HeaderScheduledAt] != "" {
			b.t.Errorf("task = %q with headers %v, want no scheduled time", info.Payload, info.Headers)
		}
	})
}

// What is enqueued for the first time, released, enqueued again when the task
// was lost, and retried by asynq: the handler gets the same.
func TestAnExtraReachesTheHandler(t *testing.T) {
	d := definition(retries(2))
	d.Payload = []byte("of the definition")
	onRedis(t, d, func(b *bench) {
		id := claim.ManualFiring("nightly", testGeneration, "r")
		extra := &claim.Extra{Payload: []byte("mine"), ScheduledAt: standsFor}
		b.ledger.add(id, claim.FiringIntent, b.definition.Queue)
		b.ledger.change(id, func(f *claim.OpenFiring) { f.Extra = extra })
		if r := b.sweep(id); r.Enqueued != 1 {
			b.t.Fatalf("Sweep = %+v, want the task enqueued", r)
		}
		b.wantExtra(string(id), "mine")
		if err := b.inspector.DeleteTask(b.definition.Queue, string(id)); err != nil {
			b.t.Fatal(err)
		}
		if r := b.sweep(id); r.Redriven != 1 {
			b.t.Fatalf("Sweep = %+v, want a re-drive", r)
		}
		b.wantExtra(string(id)+"~1", "mine")

		other := claim.ManualFiring("nightly", testGeneration, "other")
		b.ledger.add(other, claim.FiringIntent, b.definition.Queue)
		if err := b.auditor.Release(b.t.Context(), []claim.Released{{Firing: other, Queue: b.definition.Queue, Extra: extra}}); err != nil {
			b.t.Fatal(err)
		}
		b.wantExtra(string(other), "mine")
	})
}

// Of a scheduled firing the ID says the time, whatever a header says.
func TestOnlyManualFiringsReadTheHeader(t *testing.T) {
	headers := map[string]string{HeaderFiring: "a:1:1000", HeaderScheduledAt: "9000"}
	f, ok := FiringOf(asynq.NewTaskWithHeaders("x", nil, headers))
	if !ok || !f.ScheduledAt.Equal(time.UnixMilli(1000)) {
		t.Errorf("FiringOf = %+v, want the time of the ID", f)
	}
	for _, value := range []string{"", "soon", "-5", "0"} {
		headers := map[string]string{HeaderFiring: "a:1:mr", HeaderScheduledAt: value}
		if f, ok := FiringOf(asynq.NewTaskWithHeaders("x", nil, headers)); !ok || !f.ScheduledAt.IsZero() {
			t.Errorf("FiringOf with %q = %+v, want no scheduled time", value, f)
		}
	}
}
