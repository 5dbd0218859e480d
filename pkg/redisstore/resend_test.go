package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/internal/storetest"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/scripts/lua"
)

// resent says for a script which words a second execution may answer instead
// of those of the first; the header of the script names them.
var resent = map[string]map[string]string{
	lua.Complete.Hash():      {"OK": "ALREADY"},
	lua.Finish.Hash():        {"OK": "ALREADY", "DISABLED": "ALREADY"},
	lua.Settle.Hash():        {"OK": "ALREADY"},
	lua.Begin.Hash():         {"CANCELLED": "SETTLED", "UNKNOWN": "SETTLED"},
	lua.Put.Hash():           {"OK": "DUPLICATE"},
	lua.Release.Hash():       {"OK": "STALE"},
	lua.Remove.Hash():        {"OK": "GONE"},
	lua.Trigger.Hash():       {},
	lua.Redrive.Hash():       {},
	lua.Renew.Hash():         {},
	lua.Heartbeat.Hash():     {},
	lua.Mark.Hash():          {},
	lua.Pause.Hash():         {},
	lua.Resume.Hash():        {},
	lua.Skip.Hash():          {},
	lua.Insist.Hash():        {},
	lua.CalendarsDone.Hash(): {},
	lua.Calendars.Hash():     {},
	lua.Read.Hash():          {},
	lua.Stats.Hash():         {},
	lua.Configure.Hash():     {},
	lua.LeaseAcquire.Hash():  {},
	lua.BackfillStart.Hash(): {"OK": "KNOWN"},
	lua.BackfillStep.Hash():  {"OK": "STALE"},
	lua.BackfillHalt.Hash():  {},
	lua.Look.Hash():          {},
	lua.LeaseRenew.Hash():    {},
}

// A resender executes every script twice, as a client that lost the reply
// does, and wants that the second execution changes nothing.
type resender struct {
	t      testing.TB
	server *miniredis.Miniredis

	mu   sync.Mutex
	seen map[string]int // executions by script
}

func (r *resender) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (r *resender) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *resender) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := next(ctx, cmd); err != nil || !strings.HasPrefix(strings.ToLower(cmd.Name()), "eval") {
			return err
		}
		hash := fmt.Sprint(cmd.Args()[1])
		if cmd.Name() == "eval" {
			hash = redis.NewScript(hash).Hash()
		}
		allowed, known := resent[hash]
		first, ok := cmd.(*redis.Cmd)
		if !known || !ok {
			return nil
		}
		before := dump(r.server)
		second := redis.NewCmd(ctx, cmd.Args()...)
		if err := next(ctx, second); err != nil {
			r.t.Errorf("second execution of %v: %v", shorten(cmd), err)
			return nil
		}
		r.compare(cmd, before, first.Val(), second.Val(), allowed)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[hash]++
		return nil
	}
}

func (r *resender) compare(cmd redis.Cmder, before []string, first, second any, allowed map[string]string) {
	if after := dump(r.server); !slices.Equal(before, after) {
		for i := range max(len(before), len(after)) {
			if i >= len(before) || i >= len(after) || before[i] != after[i] {
				r.t.Errorf("second execution of %v changed the state:\n  %q\n  %q", shorten(cmd), before[min(i, len(before)-1)], after[min(i, len(after)-1)])
				return
			}
		}
	}
	if !alike(first, second, allowed) {
		r.t.Errorf("second execution of %v answered %v, the first %v", shorten(cmd), second, first)
	}
}

// alike compares answers; only a first word or the word of an item may differ,
// as far as it is allowed. A different word may come with different numbers.
func alike(first, second any, allowed map[string]string) bool {
	if reflect.DeepEqual(first, second) {
		return true
	}
	a, isText := first.(string)
	if isText {
		return allowed[a] == second
	}
	list, ok := first.([]any)
	other, _ := second.([]any)
	if !ok || len(list) != len(other) || len(list) == 0 {
		return false
	}
	if word, isWord := list[0].(string); isWord && allowed[word] != "" && allowed[word] == other[0] {
		return true
	}
	// complete.lua: {released, outcomes}; begin.lua and finish.lua: an answer for
	// each call; trigger.lua: the last says duplicate.
	for i := range list {
		if !reflect.DeepEqual(list[i], other[i]) && !alikeItems(list[i], other[i], allowed) && !alikeCalls(list[i], other[i], allowed) {
			return len(allowed) == 0 && i == len(list)-1 && other[i] == int64(1)
		}
	}
	return true
}

// alikeCalls compares the answers to one of several calls.
func alikeCalls(first, second any, allowed map[string]string) bool {
	list, _ := first.([]any)
	if len(list) == 0 {
		return false
	}
	_, isWord := list[0].(string)
	return isWord && alike(first, second, allowed)
}

func alikeItems(first, second any, allowed map[string]string) bool {
	list, ok := first.([]any)
	other, _ := second.([]any)
	if !ok || len(allowed) == 0 {
		return false
	}
	if len(other) == 0 {
		return true // what the first call released is named once
	}
	return len(list) == len(other) && !slices.ContainsFunc(list, func(v any) bool {
		word, isWord := v.(string)
		i := slices.IndexFunc(list, func(w any) bool { return reflect.DeepEqual(w, v) })
		return !isWord || word != other[i] && allowed[word] != other[i]
	})
}

func shorten(cmd redis.Cmder) string {
	text := fmt.Sprint(cmd.Args()[2:])
	return text[max(0, len(text)-400):]
}

// dump writes everything that a server holds, one line for each field.
func dump(server *miniredis.Miniredis) []string {
	var lines []string
	for _, key := range server.Keys() {
		switch kind := server.Type(key); kind {
		case "hash":
			fields, _ := server.HKeys(key)
			for _, field := range fields {
				lines = append(lines, key+" "+field+" "+server.HGet(key, field))
			}
		case "zset":
			scores, _ := server.SortedSet(key)
			for name, score := range scores {
				lines = append(lines, fmt.Sprintf("%s %s %.1f", key, name, score))
			}
		case "list":
			items, _ := server.List(key)
			lines = append(lines, fmt.Sprint(key, " ", items))
		default:
			entries, _ := server.Stream(key)
			lines = append(lines, fmt.Sprint(key, " ", kind, " ", len(entries)))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestAScriptExecutedTwiceIsExecutedOnce(t *testing.T) {
	seen := map[string]int{}
	var mu sync.Mutex
	t.Run("model", func(t *testing.T) {
		fewerSeeds(t, "3")
		storetest.Model(t, func(t *testing.T, now func() time.Time) storetest.Stores {
			memory := redistest.InMemory(t)
			client := memory.Client()
			hook := &resender{t: t, server: memory.Server(), seen: map[string]int{}}
			client.AddHook(hook)
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				for hash, n := range hook.seen {
					seen[hash] += n
				}
			})
			s, err := redisstore.New(client, redisstore.Options{Namespace: redistest.Namespace(), Now: now, Shards: 2})
			if err != nil {
				t.Fatal(err)
			}
			return storetest.Stores{Catalog: s, Claims: s, Ledger: s, Leases: s.Leases(), Check: invariants(s),
				Backfills: s, Skipper: s, Events: s, Firings: s, Calendars: s}
		})
	})
	for _, script := range []*redis.Script{lua.Complete, lua.Finish, lua.Settle, lua.Begin, lua.Put, lua.Release, lua.Remove, lua.Trigger,
		lua.Redrive, lua.Renew, lua.Heartbeat, lua.Mark, lua.Pause, lua.Resume,
		lua.BackfillStart, lua.BackfillStep, lua.BackfillHalt, lua.Skip, lua.Calendars, lua.Insist} {
		if seen[script.Hash()] == 0 {
			t.Errorf("a script was never executed twice, so nothing was shown: %s", script.Hash())
		}
	}
}
