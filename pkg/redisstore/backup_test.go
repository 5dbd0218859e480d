package redisstore_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// furnish fills a namespace with one of everything, and returns the claim that
// is held and the lease.
func furnish(b *bench) (claim.Claim, claim.Lease) {
	ctx := b.t.Context()
	check := func(_ any, err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	check(b.PutCalendars(ctx, []schedule.Calendar{{Name: "free", Dates: []string{"2030-12-25"}}}, schedule.CalendarOptions{}))
	d := every10("a")
	d.Labels, d.Except, d.Payload = map[string]string{"team": "x"}, []schedule.Window{{Calendar: "free"}}, []byte("\xff\x00 no text")
	b.put(d)
	skipping := every10("b")
	skipping.Overlap = schedule.OverlapBufferAll
	b.put(skipping)
	b.put(schedule.Schedule{ID: "paused", Expression: "@daily", Type: "work", Metadata: []byte(`{"n":9007199254740993}`)})
	check(b.Pause(ctx, "paused", schedule.PauseOptions{By: "ana", Reason: "\u202e move | it\n"}))
	check(nil, b.Skip(ctx, "b", b.clock.Now().Add(30*time.Second)))
	b.clock.Add(10 * time.Second)
	for _, c := range b.claimAll() {
		b.complete(c, claim.DecideEnqueued, c.ScheduledAt.Add(10*time.Second))
		if c.Schedule == "a" {
			begun := b.begin(c.Firing(), "o")
			b.finish(c.Firing(), begun.Token, claim.OutcomeFailed)
		}
	}
	check(b.Trigger(ctx, "b", schedule.TriggerOptions{RequestID: "r1", ObeyOverlap: true}))
	check(b.StartBackfill(ctx, claim.BackfillRequest{Schedule: "a", ID: "bf", From: b.clock.Now().Add(-time.Hour), To: b.clock.Now().Add(-time.Minute), Every: time.Minute}))
	lease, granted, err := b.Leases().Acquire(ctx, claim.LeaseRequest{Name: "main", Owner: "w", Nonce: "n", TTL: time.Hour})
	if err != nil || !granted {
		b.t.Fatal(granted, err)
	}
	_, _, err = b.Periodic().Ensure(ctx, claim.PeriodicTask{Name: "sweep"})
	check(nil, err)
	check(b.Periodic().Claim(ctx, claim.PeriodicRequest{Name: "sweep", Owner: "w", Nonce: "n", TTL: time.Minute}))
	b.clock.Add(10 * time.Second)
	held := b.claimAll()
	if len(held) == 0 {
		b.t.Fatal("nothing is claimed")
	}
	return held[0], lease
}

// contents are all keys of a namespace as text.
func contents(t *testing.T, client redis.UniversalClient, namespace string) map[string]string {
	t.Helper()
	ctx := t.Context()
	var keys []string
	scan := func(ctx context.Context, node redis.Cmdable) error {
		found, err := node.Keys(ctx, "belfry:{"+namespace+":*").Result()
		keys = append(keys, found...)
		return err
	}
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		for shard := range 4 { // one node after another, so that no lock is needed
			node, nodeErr := cluster.MasterForKey(ctx, fmt.Sprintf("belfry:{%s:%02d}:st", namespace, shard))
			err = errors.Join(err, nodeErr, scan(ctx, node))
		}
		node, nodeErr := cluster.MasterForKey(ctx, "belfry:{"+namespace+":ctl}:conf")
		err = errors.Join(err, nodeErr, scan(ctx, node))
	} else {
		err = scan(ctx, client)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, key := range keys {
		text := ""
		switch kind := client.Type(ctx, key).Val(); kind {
		case "hash":
			text = fmt.Sprint(client.HGetAll(ctx, key).Val())
		case "zset":
			text = fmt.Sprint(client.ZRangeWithScores(ctx, key, 0, -1).Val())
		case "set":
			members := client.SMembers(ctx, key).Val()
			slices.Sort(members)
			text = fmt.Sprint(members)
		case "list":
			text = fmt.Sprint(client.LRange(ctx, key, 0, -1).Val())
		case "stream":
			text = fmt.Sprint(client.XRange(ctx, key, "-", "+").Val())
		default:
			t.Errorf("%s is a %s, which no backup holds", key, kind)
		}
		all[strings.Replace(key, namespace, "NS", 1)] = text
	}
	return all
}

// Tokens, and what a restore makes of leases, are the only difference between
// a namespace and its restored copy.
var restoredDifference = regexp.MustCompile(` ?(token|until_ms):\d+`)

func sameButTokens(all map[string]string) map[string]string {
	out := map[string]string{}
	for key, text := range all {
		if strings.HasSuffix(key, ":meta") || strings.Contains(key, ":lease:") {
			text = restoredDifference.ReplaceAllString(text, "")
		}
		if !strings.HasSuffix(key, ":periodic") {
			out[key] = text
		}
	}
	return out
}

func (b *bench) backup() ([]byte, redisstore.BackupInfo) {
	b.t.Helper()
	var file bytes.Buffer
	shards := 0
	info, err := b.Backup(b.t.Context(), &file, func(done, _ int) { shards = done })
	if err != nil || shards != info.Shards {
		b.t.Fatalf("%d of %d shards, %v", shards, info.Shards, err)
	}
	return file.Bytes(), info
}

func TestABackupHoldsEverythingAndIsRestored(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		held, lease := furnish(b)
		file, info := b.backup()
		verified, err := redisstore.VerifyBackup(bytes.NewReader(file))
		if err != nil || verified != info {
			t.Errorf("verified %+v, taken %+v: %v", verified, info, err)
		}
		if info.Schedules != 3 || info.Calendars != 1 || info.Leases != 1 || info.Runs == 0 || info.Open == 0 {
			t.Errorf("%+v", info)
		}
		before := contents(t, b.client, b.Namespace())
		copied := restoredTo(t, b, file)
		after := contents(t, b.client, copied.Namespace())
		if diff := cmp.Diff(sameButTokens(before), sameButTokens(after)); diff != "" {
			t.Errorf("restored (-taken +restored):\n%s", diff)
		}
		copied.check()
		checkFenced(t, copied, held, lease)
	})
}

// restoredTo restores into a namespace of its own on the same server, one
// minute later.
func restoredTo(t *testing.T, b *bench, file []byte) *bench {
	t.Helper()
	store, err := redisstore.New(b.client, redisstore.Options{Namespace: redistest.Namespace(), Now: b.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), bytes.NewReader(file), redisstore.RestoreOptions{Attempt: "one"}); err != nil {
		t.Fatalf("restore: %v", err)
	}
	return &bench{Store: store, t: t, clock: b.clock, client: b.client}
}

// checkFenced shows that whoever held something when the backup was taken
// holds nothing in the restored namespace, once it is granted again.
func checkFenced(t *testing.T, b *bench, held claim.Claim, lease claim.Lease) {
	t.Helper()
	if _, ok, err := b.Leases().Renew(t.Context(), lease, time.Minute); ok || err != nil {
		t.Errorf("the old holder renewed its lease: %v %v", ok, err)
	}
	again, ok, err := b.Leases().Acquire(t.Context(), claim.LeaseRequest{Name: "main", Owner: "w2", Nonce: "n", TTL: time.Minute})
	if err != nil || !ok || again.Token <= lease.Token {
		t.Errorf("lease: %v %v, token %d after %d", ok, err, again.Token, lease.Token)
	}
	b.clock.Add(time.Minute)
	least := claim.Token(b.clock.Now().UnixMicro())
	for _, c := range b.claimAll() {
		if c.Token <= held.Token || c.Token < least-claim.Token(time.Minute.Microseconds()) {
			t.Errorf("%s: token %d, was %d", c.Schedule, c.Token, held.Token)
		}
	}
	if got := b.complete(held, claim.DecideEnqueued, held.ScheduledAt.Add(10*time.Second)); got != claim.CompleteStale && got != claim.CompleteAlready {
		t.Errorf("the old claim was completed: %s", got)
	}
	periodic, err := b.Periodic().Claim(t.Context(), claim.PeriodicRequest{Name: "sweep", Owner: "w2", Nonce: "m", TTL: time.Minute})
	if err != nil || periodic.Answer != claim.PeriodicGranted || periodic.Claim.Lease.Token <= claim.Token(least-claim.Token(time.Hour.Microseconds())) {
		t.Errorf("periodic: %+v %v", periodic, err)
	}
}

func TestARestoreNeedsAnEmptyNamespace(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		furnish(b)
		file, _ := b.backup()
		before := contents(t, b.client, b.Namespace())
		_, err := b.Restore(t.Context(), bytes.NewReader(file), redisstore.RestoreOptions{Attempt: "x"})
		if !errors.Is(err, redisstore.ErrNotEmpty) {
			t.Errorf("restore over itself: %v", err)
		}
		if diff := cmp.Diff(before, contents(t, b.client, b.Namespace())); diff != "" {
			t.Errorf("it changed something:\n%s", diff)
		}
		other, err := redisstore.New(b.client, redisstore.Options{Namespace: redistest.Namespace(), Now: b.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Announce(t.Context(), claim.Member{ID: "w"}); err != nil {
			t.Fatal(err)
		}
		_, err = other.Restore(t.Context(), bytes.NewReader(file), redisstore.RestoreOptions{Attempt: "x"})
		if !errors.Is(err, redisstore.ErrNotEmpty) || !strings.Contains(fmt.Sprint(err), "workers") {
			t.Errorf("restore under a live worker: %v", err)
		}
	})
}

// Workers that outlive a FLUSHALL are in no key, but listen.
func TestARestoreHearsWorkersThatNoKeyTells(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		furnish(b)
		file, _ := b.backup()
		other, err := redisstore.New(b.client, redisstore.Options{Namespace: redistest.Namespace(), Now: b.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		_, healthy, err := other.Wake(ctx)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, healthy)
		_, err = other.Restore(t.Context(), bytes.NewReader(file), redisstore.RestoreOptions{Attempt: "x"})
		if !errors.Is(err, redisstore.ErrNotEmpty) || !strings.Contains(fmt.Sprint(err), "workers wait in it") {
			t.Errorf("restore under a worker that listens: %v", err)
		}
		stop()
		eventually(t, func() bool {
			_, err = other.Restore(t.Context(), bytes.NewReader(file), redisstore.RestoreOptions{Attempt: "y"})
			return !errors.Is(err, redisstore.ErrNotEmpty)
		})
		if err != nil {
			t.Errorf("restore after it ended: %v", err)
		}
	})
}

// A stumbling reader breaks off in its second pass.
type stumbling struct {
	whole      *bytes.Reader
	pass, left int
}

func (s *stumbling) Seek(offset int64, whence int) (int64, error) {
	s.pass++
	return s.whole.Seek(offset, whence)
}

var errStumbled = errors.New("the disk is gone")

func (s *stumbling) Read(p []byte) (int, error) {
	if s.pass == 0 {
		return s.whole.Read(p)
	}
	if s.left <= 0 {
		return 0, errStumbled
	}
	n, err := s.whole.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

func TestABrokenRestoreIsRepeated(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		furnish(b)
		file, info := b.backup()
		namespace := redistest.Namespace()
		options := redisstore.Options{Namespace: namespace, Now: b.clock.Now}
		for _, part := range []int{4, 3, 2} {
			store, err := redisstore.New(b.client, options)
			if err != nil {
				t.Fatal(err)
			}
			_, err = store.Restore(t.Context(), &stumbling{whole: bytes.NewReader(file), left: len(file) * (part - 1) / part}, redisstore.RestoreOptions{Attempt: "x"})
			if !errors.Is(err, errStumbled) {
				t.Fatalf("broken off: %v", err)
			}
			if _, err := store.List(t.Context(), schedule.ListOptions{}); !errors.Is(err, redisstore.ErrRestoring) {
				t.Errorf("half of a namespace can be used: %v", err)
			}
		}
		store, err := redisstore.New(b.client, options)
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		again, err := store.Restore(t.Context(), bytes.NewReader(file), redisstore.RestoreOptions{Attempt: "y", Progress: func(n int) { lines = n }})
		if err != nil || again != info || lines == 0 {
			t.Fatalf("%+v, %d lines, %v", again, lines, err)
		}
		if diff := cmp.Diff(sameButTokens(contents(t, b.client, b.Namespace())), sameButTokens(contents(t, b.client, namespace))); diff != "" {
			t.Errorf("restored (-taken +restored):\n%s", diff)
		}
	})
}

// No file that was cut or changed passes for a backup.
func TestADamagedBackupIsRefused(t *testing.T) {
	b := newBench(t, redistest.Backends()[0].Dial(t), 1)
	furnish(b)
	file, info := b.backup()
	empty, err := redisstore.New(b.client, redisstore.Options{Namespace: redistest.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	for n := range file {
		if _, err := redisstore.VerifyBackup(bytes.NewReader(file[:n])); !errors.Is(err, redisstore.ErrBadBackup) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
		changed := slices.Clone(file)
		changed[n] ^= 1 << (n % 8)
		// The time and the system in the header of gzip say nothing of the data.
		if got, err := redisstore.VerifyBackup(bytes.NewReader(changed)); err == nil && got != info || err != nil && !errors.Is(err, redisstore.ErrBadBackup) {
			t.Fatalf("byte %d changed: %+v, %v", n, got, err)
		}
	}
	for name, damaged := range map[string][]byte{"cut": file[:len(file)-9], "appended": append(slices.Clone(file), file...), "no backup": []byte("schedules: []"), "empty": nil} {
		if _, err := empty.Restore(t.Context(), bytes.NewReader(damaged), redisstore.RestoreOptions{Attempt: "x"}); !errors.Is(err, redisstore.ErrBadBackup) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all := contents(t, b.client, empty.Namespace()); len(all) != 0 {
		t.Errorf("a refused backup wrote %v", all)
	}
}

// A file of a later version says so when it is whole, and is damaged when not.
func TestABackupOfALaterVersionIsToldFromADamagedOne(t *testing.T) {
	var file bytes.Buffer
	zip := gzip.NewWriter(&file)
	if _, err := zip.Write([]byte(`{"belfry_backup":9}` + "\n" + `whatever it holds` + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := redisstore.VerifyBackup(bytes.NewReader(file.Bytes())); !errors.Is(err, redisstore.ErrNewerFormat) || !strings.Contains(err.Error(), "version 9") {
		t.Errorf("whole: %v", err)
	}
	if _, err := redisstore.VerifyBackup(bytes.NewReader(file.Bytes()[:file.Len()-1])); !errors.Is(err, redisstore.ErrBadBackup) {
		t.Errorf("cut: %v", err)
	}
}

func TestNothingIsBackedUpOfNothing(t *testing.T) {
	client := redistest.Backends()[0].Dial(t)
	store, err := redisstore.New(client, redisstore.Options{Namespace: "never-used"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Backup(t.Context(), io.Discard, nil); !errors.Is(err, redisstore.ErrEmptyNamespace) {
		t.Errorf("Backup = %v", err)
	}
	if all := contents(t, client, "never-used"); len(all) != 0 {
		t.Errorf("it made %v", all)
	}
}

// eventually waits until something holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick, end := time.NewTicker(10*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it does not hold after 10 s")
		}
	}
}
