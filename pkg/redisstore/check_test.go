package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// TestCheckFindsWhatIsBroken breaks a sound store in one place after another.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	due := float64(newClock().Now().Add(20 * time.Second).UnixMilli())
	for _, tt := range []struct {
		name    string
		breakIt func(b *bench, key func(name string) string)
		want    string
	}{
		{"a schedule that is due nowhere", func(b *bench, key func(string) string) { b.client.ZRem(b.t.Context(), key("due"), "a") }, "stands at"},
		{"a schedule that is due at another time", func(b *bench, key func(string) string) {
			b.client.ZIncrBy(b.t.Context(), key("due"), 1, "a")
		}, fmt.Sprintf("want %.0f", due)},
		{"a due time of nobody", func(b *bench, key func(string) string) { b.client.ZIncrBy(b.t.Context(), key("due"), 1, "x") }, "x is due and does not exist"},
		{"a firing without an audit time", func(b *bench, key func(string) string) { b.client.Del(b.t.Context(), key("aud")) }, "has no audit time"},
		{"a lost firing", func(b *bench, key func(string) string) { b.client.Del(b.t.Context(), key("fir")) }, "0 open and 0 buffered in the ledger, 1 and 0"},
		{"an extra of a scheduled firing", func(b *bench, key func(string) string) {
			for id, text := range b.client.HGetAll(b.t.Context(), key("fir")).Val() {
				b.client.HSet(b.t.Context(), key("fir"), id, text+"5||-1||")
			}
		}, "carries what only a trigger gives"},
		{"an extra that is cut off", func(b *bench, key func(string) string) {
			for id, text := range b.client.HGetAll(b.t.Context(), key("fir")).Val() {
				b.client.HSet(b.t.Context(), key("fir"), id, text+"5||4|abc")
			}
		}, "is not the record of a firing"},
		{"a list that names what is not open", func(b *bench, key func(string) string) {
			b.client.HSet(b.t.Context(), key("opn"), "a", "1:2,")
		}, "a:1:2 is listed as open and is not"},
		{"a counter that is off", func(b *bench, key func(string) string) { b.client.HIncrBy(b.t.Context(), key("meta"), "active", 1) }, "meta counts 2 active, there are 1"},
		{"a token clock that went back", func(b *bench, key func(string) string) { b.client.HSet(b.t.Context(), key("meta"), "token", 1) }, "meta knows 1"},
		{"a schedule that is not indexed", func(b *bench, key func(string) string) { b.client.Del(b.t.Context(), key("lbl")) }, "is not indexed"},
		{"a hole in the verdicts", func(b *bench, key func(string) string) {
			text := b.client.HGet(b.t.Context(), key("st"), "a").Val()
			at := newClock().Now().Add(10 * time.Second).UnixMilli()
			b.client.HSet(b.t.Context(), key("st"), "a", strings.Replace(text, fmt.Sprintf("|%d|", at), fmt.Sprintf("|%d|", at+10000), 1))
		}, "the high-water mark is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, redistest.Backends()[0].Dial(t), 1)
			d := every10("a")
			d.Overlap = schedule.OverlapSkip
			b.put(d)
			b.clock.Add(10 * time.Second)
			c := b.claimOne()
			b.complete(c, claim.DecideEnqueued, c.ScheduledAt.Add(10*time.Second))
			b.check()
			key := func(name string) string { return "belfry:{" + b.Namespace() + ":00}:" + name }
			tt.breakIt(b, key)
			found, err := b.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(found); !strings.Contains(text, tt.want) {
				t.Errorf("Check = %s, want something with %q", text, tt.want)
			}
			b.client.FlushDB(t.Context()) // the server is this test's own
		})
	}
}

// passing lets a firing look open while a Check reads, in another way each
// time: as in a fleet, nothing of it is there at the next look.
type passing struct {
	*interjection
	reads int
}

func (p *passing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if read, ok := cmd.(*redis.ZSliceCmd); ok && strings.HasSuffix(fmt.Sprint(cmd.Args()[1]), ":aud") {
			p.reads++
			read.SetVal(append(read.Val(), redis.Z{Score: 1, Member: fmt.Sprintf("a:1:%d", p.reads)}))
		}
		return err
	}
}

// TestCheckIsNotMisledByAFleet: what is broken at one look only is not broken.
func TestCheckIsNotMisledByAFleet(t *testing.T) {
	client := redistest.Backends()[0].Dial(t)
	b := newBench(t, client, 1)
	b.put(every10("a"))
	p := &passing{interjection: &interjection{}}
	client.(*redis.Client).AddHook(p)
	found, err := b.Check(t.Context())
	if err != nil || len(found) != 0 || p.reads != 2 {
		t.Errorf("Check = %q, %v after %d looks, want nothing after 2", found, err, p.reads)
	}
	b.client.Del(t.Context(), "belfry:{"+b.Namespace()+":00}:due")
	found, err = b.Check(t.Context())
	if err != nil || len(found) != 1 || !strings.Contains(found[0].String(), "stands at") {
		t.Errorf("Check = %q, %v, want what stays", found, err)
	}
	b.client.FlushDB(t.Context()) // the server is this test's own
}

// TestCalendarsOfAFullServer: whoever is called because Redis is full must be
// able to look at what is stored.
func TestCalendarsOfAFullServer(t *testing.T) {
	server := redistest.Start(t, redistest.ServerOptions{})
	client := server.Client()
	s, err := redisstore.New(client, redisstore.Options{Namespace: redistest.Namespace()})
	if err != nil {
		t.Fatal(err)
	}
	holidays := schedule.Calendar{Name: "holidays", Dates: []string{"2027-01-01"}}
	if _, err := s.PutCalendars(t.Context(), []schedule.Calendar{holidays}, schedule.CalendarOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	calendars, version, err := s.Calendars(t.Context())
	if err != nil || version == 0 || len(calendars) != 1 || calendars[0].Name != "holidays" {
		t.Errorf("Calendars = %v of version %d, %v", calendars, version, err)
	}
}
