package redisstore_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// TestReadsCreateNothing calls everything that does not put something new into
// a namespace, on one that is not there.
func TestReadsCreateNothing(t *testing.T) {
	for _, backend := range redistest.Backends() {
		t.Run(backend.Name, func(t *testing.T) {
			t.Parallel()
			ctx, client := t.Context(), backend.Dial(t)
			s, err := redisstore.New(client, redisstore.Options{Namespace: redistest.Namespace(), Shards: 2})
			if err != nil {
				t.Fatal(err)
			}
			must := func(what string, err error, wanted ...error) {
				t.Helper()
				for _, want := range wanted {
					if errors.Is(err, want) {
						return
					}
				}
				if err != nil || len(wanted) > 0 {
					t.Errorf("%s = %v, want %v", what, err, wanted)
				}
			}
			page, err := s.List(ctx, schedule.ListOptions{Labels: map[string]string{"a": "b"}})
			must("List", err)
			stats, err := s.Stats(ctx)
			must("Stats", err)
			if len(page.Entries) != 0 || stats.Total != 0 {
				t.Errorf("an absent namespace holds %+v, %+v", page, stats)
			}
			_, err = s.Get(ctx, "a")
			must("Get", err, schedule.ErrNotFound)
			_, err = s.Runs(ctx, "a", 5)
			must("Runs", err, schedule.ErrNotFound)
			_, err = s.Pause(ctx, "a", schedule.PauseOptions{})
			must("Pause", err, schedule.ErrNotFound)
			_, err = s.Resume(ctx, "a", schedule.ResumeOptions{})
			must("Resume", err, schedule.ErrNotFound)
			_, err = s.Trigger(ctx, "a", schedule.TriggerOptions{})
			must("Trigger", err, schedule.ErrNotFound)
			_, err = s.Remove(ctx, "a", schedule.RemoveOptions{})
			must("Remove", err)
			must("Skip", s.Skip(ctx, "a", time.Now().Add(time.Hour)), schedule.ErrNotFound)
			_, err = s.Backfill(ctx, "a", "b")
			must("Backfill", err, claim.ErrNoBackfill)
			_, err = s.StartBackfill(ctx, claim.BackfillRequest{Schedule: "a", From: time.Now().Add(-time.Hour), To: time.Now()})
			must("StartBackfill", err, schedule.ErrNotFound)
			_, _, err = s.Events(ctx, "", 10)
			must("Events", err)
			_, _, err = s.Calendars(ctx)
			must("Calendars", err)
			_, err = s.CalendarUsers(ctx, "c")
			must("CalendarUsers", err)
			must("FinishCalendars", s.FinishCalendars(ctx))
			_, err = s.Members(ctx, time.Minute)
			must("Members", err)
			_, err = s.Leases().List(ctx)
			must("Leases", err)
			_, err = s.Periodic().List(ctx)
			must("Periodic", err)
			_, _, err = s.Leases().Lookup(ctx, "l")
			must("Lookup", err)
			_, err = s.Check(ctx)
			must("Check", err)
			_, err = s.RepairAll(ctx)
			must("RepairAll", err)
			_, err = s.Backup(ctx, &bytes.Buffer{}, nil)
			must("Backup", err, redisstore.ErrEmptyNamespace)
			_, err = s.Put(ctx, every10("a"), schedule.PutOptions{DryRun: true})
			must("Put as a dry run", err)
			_, err = s.PutMany(ctx, []schedule.Schedule{every10("a")}, schedule.PutOptions{DryRun: true})
			must("PutMany as a dry run", err)
			_, err = s.ClaimDue(ctx, claim.ClaimRequest{Limit: 10, TTL: time.Second})
			must("ClaimDue", err)
			_, err = s.Audit(ctx, claim.AuditRequest{Limit: 10, Hide: time.Second})
			must("Audit", err)
			id := claim.ScheduledFiring("a", 1, time.Now())
			begun, err := s.Begin(ctx, claim.BeginRequest{Firing: id, Owner: "o", Lease: time.Second})
			must("Begin", err)
			if begun.Answer != claim.BeginGone {
				t.Errorf("Begin = %+v, want GONE", begun)
			}
			_, err = s.Finish(ctx, claim.FinishRequest{Run: claim.Run{Firing: id, Token: 1}, Outcome: claim.OutcomeSucceeded, KeepRuns: 5})
			must("Finish", err)
			for _, tag := range []string{"ctl", "00", "01"} {
				for _, name := range []string{"conf", "cal", "calq", "workers", "members", "periodic", "leases", "lease:l", "due", "def", "st", "fir", "aud",
					"out", "meta", "idem", "opn", "buf", "skp", "bf", "bfq", "lbl", "evt", "run:a"} {
					key := "belfry:{" + s.Namespace() + ":" + tag + "}:" + name
					if n, err := client.Exists(ctx, key).Result(); err != nil || n != 0 {
						t.Errorf("%s was created, %v", key, err)
					}
				}
			}
			if _, err := s.Put(ctx, every10("a"), schedule.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if shards, err := s.Shards(ctx); err != nil || shards != 2 {
				t.Errorf("Shards = %d, %v, want 2", shards, err)
			}
		})
	}
}
