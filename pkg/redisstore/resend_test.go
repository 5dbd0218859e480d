package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/internal/storetest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

// A rule says how the answer of a second execution may differ from that of the
// first; the header of the script says the same. Nothing that is stored may.
type rule struct {
	words  map[string]string // which the second may answer instead of those of the first
	number bool              // it may answer 0 for 1
	hides  bool              // it does not name again what the first one handed out or repaired
}

// resent are the rules of all scripts.
var resent = map[string]rule{
	"announce": {}, "audit": {hides: true}, "backfill_due": {hides: true}, "backfill_halt": {},
	"backfill_start": {words: map[string]string{"OK": "KNOWN"}},
	"backfill_step":  {words: map[string]string{"OK": "STALE"}},
	"begin":          {words: map[string]string{"CANCELLED": "SETTLED", "UNKNOWN": "SETTLED"}},
	"calendars":      {}, "calendars_done": {}, "calendars_raise": {}, "cancel": {words: map[string]string{"CANCELLED": "CLOSED"}}, "claim": {hides: true},
	"complete":  {words: map[string]string{"OK": "ALREADY", "STALE": "ALREADY"}}, // of a schedule that it completed
	"configure": {}, "drain": {},
	"finish":    {words: map[string]string{"OK": "ALREADY", "DISABLED": "ALREADY"}},
	"heartbeat": {}, "insist": {}, "lease_acquire": {}, "lease_lookup": {}, "lease_release": {number: true}, "lease_renew": {},
	"look": {}, "mark": {}, "members": {}, "pause": {}, "periodic_claim": {},
	"periodic_complete": {words: map[string]string{"OK": "ALREADY"}},
	"periodic_ensure":   {number: true}, "periodic_list": {}, "periodic_pause": {}, "periodic_renew": {}, "periodic_resume": {},
	"periodic_trigger":  {number: true},
	"put":               {words: map[string]string{"OK": "DUPLICATE"}},
	"read":              {},
	"recount_firings":   {words: map[string]string{"OK": "RACE"}, hides: true},
	"recount_schedules": {hides: true},
	"redrive":           {},
	"release":           {words: map[string]string{"OK": "STALE"}},
	"remove":            {words: map[string]string{"OK": "GONE"}},
	"renew":             {}, "repair_backfills": {hides: true}, "repair_firings": {hides: true}, "repair_records": {hides: true}, "repair_requests": {hides: true},
	"repair_schedules": {hides: true}, "repair_token": {hides: true}, "resume": {},
	"settle": {words: map[string]string{"OK": "ALREADY"}},
	"skip":   {}, "stats": {}, "trigger": {},
}

// A resender executes every script twice, as a client that lost the reply
// does, and wants that the second execution changes nothing. Nobody else acts
// in between.
type resender struct {
	t       testing.TB
	server  *miniredis.Miniredis
	names   map[string]string // of scripts, by hash
	witness *witness

	mu sync.Mutex
}

// A witness notes what scripts answered, over many tests.
type witness struct {
	mu      sync.Mutex
	twice   map[string]int             // executions by script
	answers map[string]map[string]bool // words and numbers in answers
}

func (w *witness) note(name string, answer any, twice bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answers[name] == nil {
		w.answers[name] = map[string]bool{}
	}
	w.collect(name, answer)
	if twice {
		w.twice[name]++
	}
}

// collect notes every word, and every number as 0 or 1.
func (w *witness) collect(name string, answer any) {
	switch v := answer.(type) {
	case string:
		w.answers[name][v] = true
	case int64:
		w.answers[name][fmt.Sprint(min(v, 1))] = true
	case []any:
		for _, one := range v {
			w.collect(name, one)
		}
	}
}

func (r *resender) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (r *resender) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !strings.HasPrefix(cmds[0].Name(), "eval") {
			return next(ctx, cmds) // likewise
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return next(ctx, cmds)
	}
}

func (r *resender) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(strings.ToLower(cmd.Name()), "eval") {
			return next(ctx, cmd) // such as what a connection begins with, while an execution waits for it
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := next(ctx, cmd); err != nil {
			return err
		}
		hash := fmt.Sprint(cmd.Args()[1])
		if cmd.Name() == "eval" {
			hash = redis.NewScript(hash).Hash()
		}
		name := r.names[hash]
		first, ok := cmd.(*redis.Cmd)
		if name == "" || !ok {
			return nil
		}
		if resent[name].hides && few(cmd) {
			r.witness.note(name, first.Val(), false)
			return nil // a second one hands out more
		}
		before := dump(r.server)
		second := redis.NewCmd(ctx, cmd.Args()...)
		if err := next(ctx, second); err != nil {
			r.t.Errorf("%s: second execution of %v: %v", name, shorten(cmd), err)
			return nil
		}
		r.witness.note(name, first.Val(), true)
		r.witness.note(name, second.Val(), false)
		r.compare(name, cmd, before, first.Val(), second.Val())
		return nil
	}
}

// few says that a call asks for less than there may be: its limit is the first
// argument that is its own.
func few(cmd redis.Cmder) bool {
	args := cmd.Args()
	keys, _ := strconv.Atoi(fmt.Sprint(args[2]))
	if keys != 15 || len(args) < 7+keys {
		return false
	}
	limit, err := strconv.Atoi(fmt.Sprint(args[6+keys]))
	return err == nil && limit < 100
}

func (r *resender) compare(name string, cmd redis.Cmder, before []string, first, second any) {
	if after := dump(r.server); !slices.Equal(before, after) {
		for i := range max(len(before), len(after)) {
			if i >= len(before) || i >= len(after) || before[i] != after[i] {
				r.t.Errorf("%s: second execution of %v changed the state:\n  %q\n  %q", name, shorten(cmd), before[min(i, len(before)-1)], after[min(i, len(after)-1)])
				return
			}
		}
	}
	if !alike(first, second, resent[name]) {
		r.t.Errorf("%s: second execution of %v answered %v, the first %v", name, shorten(cmd), second, first)
	}
}

// alike compares answers; only a first word or the word of an item may differ,
// as far as it is allowed. A different word may come with different numbers.
func alike(first, second any, allowed rule) bool {
	if reflect.DeepEqual(first, second) {
		return true
	}
	if a, isText := first.(string); isText {
		return allowed.words[a] == second
	}
	if allowed.number && first == int64(1) && second == int64(0) {
		return true
	}
	list, ok := first.([]any)
	other, _ := second.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	if word, isWord := list[0].(string); isWord && len(other) > 0 && allowed.words[word] != "" && allowed.words[word] == other[0] {
		return true
	}
	if len(list) != len(other) { // what was repaired comes last
		return allowed.hides && len(other) < len(list) && reflect.DeepEqual(append([]any{}, list[:len(other)]...), append([]any{}, other...))
	}
	// complete.lua: {released, outcomes}; begin.lua and finish.lua: an answer for
	// each call; trigger.lua: the last says duplicate.
	for i := range list {
		if !reflect.DeepEqual(list[i], other[i]) && !alikeItems(list[i], other[i], allowed) && !alikeCalls(list[i], other[i], allowed) {
			return len(allowed.words) == 0 && i == len(list)-1 && other[i] == int64(1)
		}
	}
	return true
}

// alikeCalls compares the answers to one of several calls.
func alikeCalls(first, second any, allowed rule) bool {
	list, _ := first.([]any)
	if len(list) == 0 {
		return false
	}
	_, isWord := list[0].(string)
	return isWord && alike(first, second, allowed)
}

func alikeItems(first, second any, allowed rule) bool {
	if allowed.number && first == int64(1) && second == int64(0) || allowed.hides && second == int64(0) {
		return true
	}
	list, ok := first.([]any)
	other, _ := second.([]any)
	if !ok || len(allowed.words) == 0 && !allowed.hides {
		return false
	}
	if len(other) == 0 {
		return true // what the first call released or handed out is named once
	}
	if len(list) != len(other) {
		return false
	}
	for i := range list {
		word, isWord := list[i].(string)
		if !isWord || word != other[i] && allowed.words[word] != other[i] {
			return false
		}
	}
	return true
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

// client connects to a server of its own, with scripts executed twice and plainly. Without a
// clock of the test the second execution is later, which is no resend.
func (w *witness) client(t *testing.T, now func() time.Time) (client, plain redis.UniversalClient) {
	scripts, _ := lua.All()
	names := map[string]string{}
	for name, script := range scripts {
		names[script.Hash()] = name
	}
	memory := redistest.InMemory(t)
	twice := memory.Client()
	if now != nil {
		twice.AddHook(&resender{t: t, server: memory.Server(), names: names, witness: w})
	}
	return twice, memory.Client()
}

// open is a backend of the contract suite.
func (w *witness) open(t *testing.T, now func() time.Time) storetest.Stores {
	client, _ := w.client(t, now)
	var stores func(wall func() time.Time) storetest.Stores
	stores = func(wall func() time.Time) storetest.Stores {
		s, err := redisstore.New(client, redisstore.Options{Namespace: "resend", Now: now, Wall: wall, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Stores{Catalog: s, Claims: s, Ledger: s, Leases: s.Leases(), Roster: s, Check: invariants(s),
			Backfills: s, Skipper: s, Events: s, Firings: s, Cancels: s, Calendars: s, Periodic: s.Periodic(), Repair: whole(s), Peer: stores}
	}
	return stores(nil)
}

// TestEveryScript runs the contract, the model and repairs with every script
// executed twice: twice is once, for each script, and each is seen to give every
// answer that its header names.
func TestEveryScript(t *testing.T) {
	w := &witness{twice: map[string]int{}, answers: map[string]map[string]bool{}}
	t.Run("contract", func(t *testing.T) { storetest.Run(t, w.open) })
	t.Run("model", func(t *testing.T) {
		fewerSeeds(t, "3")
		storetest.Model(t, w.open)
	})
	t.Run("periodic", func(t *testing.T) {
		storetest.Periodic(t, func(t *testing.T, now func() time.Time) claim.PeriodicStore {
			return w.open(t, now).Catalog.(*redisstore.Store).Periodic()
		})
	})
	t.Run("repair", func(t *testing.T) { repairTwice(t, w) })
	t.Run("race", func(t *testing.T) { raceTwice(t, w) })
	scripts, headers := lua.All()
	for name := range scripts {
		if _, known := resent[name]; !known {
			t.Errorf("%s: no rule says what a second execution may answer", name)
		}
		if w.twice[name] == 0 {
			t.Errorf("%s was never executed twice, so nothing was shown", name)
		}
		for _, code := range codes(t, name, headers[name]) {
			if !w.answers[name][code] {
				t.Errorf("%s never answered %s", name, code)
			}
		}
	}
	for name := range resent {
		if scripts[name] == nil {
			t.Errorf("there is no script %s", name)
		}
	}
}

var (
	returned   = regexp.MustCompile(`(?s)\n-- Returns +(.*?)\n-- Resend `)
	codeWord   = regexp.MustCompile(`\b[A-Z]{2,}\b|"[A-Z]"`)
	codeNumber = regexp.MustCompile(`\b([01])(?: [a-z]|, or)`)
)

// codes are the answers that a header names: words in capitals, and the numbers
// 0 and 1 where they are answers.
func codes(t *testing.T, name, header string) []string {
	m := returned.FindStringSubmatch(header)
	if m == nil {
		t.Fatalf("%s: no line says what it returns", name)
	}
	var all []string
	for _, word := range codeWord.FindAllString(m[1], -1) {
		all = append(all, strings.Trim(word, `"`))
	}
	for _, number := range codeNumber.FindAllStringSubmatch(m[1], -1) {
		all = append(all, number[1])
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(code string) bool { return code == "ID" })
}

// repairTwice breaks and repairs.
func repairTwice(t *testing.T, w *witness) {
	c := newClock()
	client, plain := w.client(t, c.Now)
	s, err := redisstore.New(client, redisstore.Options{Namespace: "resend", Now: c.Now, Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Store: s, t: t, clock: c, client: plain}
	b.furnish()
	v := &vandal{client: plain, random: rand.New(rand.NewPCG(5, 5)), key: b.shardKey, shards: 3}
	for range 30 {
		v.strike(t.Context())
	}
	b.spoilCounts()
	plain.HSet(t.Context(), b.shardKey(0, "meta"), "token", "spoiled")
	r, err := b.NewRepair(redisstore.RepairOptions{Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	for rounds := 0; rounds < 2; {
		step, err := r.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rounds += one(step.Done)
	}
	if _, err := b.PutCalendars(t.Context(), []schedule.Calendar{{Name: "c", Dates: []string{"2030-01-01"}}}, schedule.CalendarOptions{}); err != nil {
		t.Fatal(err)
	}
	plain.HSet(t.Context(), b.shardKey(0, "meta"), "cal", 7)
	if healed, err := b.HealCalendars(t.Context()); err != nil || healed.Version != 8 {
		t.Errorf("HealCalendars = %+v, %v", healed, err)
	}
	b.check()
}

// An interjection acts once between what a caller read and its script.
type interjection struct {
	script *redis.Script
	act    func()
}

func (i *interjection) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (i *interjection) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (i *interjection) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if act := i.act; act != nil && cmd.Name() == "evalsha" && fmt.Sprint(cmd.Args()[1]) == i.script.Hash() {
			i.act = nil
			act()
		}
		return next(ctx, cmd)
	}
}

// raceTwice changes a schedule between what a caller reads and what it writes.
func raceTwice(t *testing.T, w *witness) {
	c := newClock()
	client, plain := w.client(t, c.Now)
	options := redisstore.Options{Namespace: "resend", Now: c.Now}
	s, err1 := redisstore.New(client, options)
	other, err2 := redisstore.New(plain, options)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	between := &interjection{}
	client.AddHook(between)
	b := &bench{Store: other, t: t, clock: c, client: plain}
	remove := func() {
		if _, err := other.Remove(t.Context(), "a", schedule.RemoveOptions{}); err != nil {
			t.Error(err)
		}
	}
	edit := func() {
		d := every10("a")
		d.Specs[0].Every = 7 * time.Second
		d.Paused = true
		b.put(d)
	}
	calendar := func(date string) {
		if _, err := other.PutCalendars(t.Context(), []schedule.Calendar{{Name: "c", Dates: []string{date}}}, schedule.CalendarOptions{}); err != nil {
			t.Error(err)
		}
	}
	calendar("2030-03-01")
	user := every10("user")
	user.Except = []schedule.Window{{Calendar: "c"}}
	for name, test := range map[string]struct {
		script *redis.Script
		act    func()
		call   func() error
		want   error
	}{
		"put, calendar changed": {lua.Put, func() { calendar("2030-03-02") }, func() error { _, err := s.Put(t.Context(), user, schedule.PutOptions{}); return err }, nil},
		"resume, deleted":       {lua.Resume, remove, func() error { _, err := s.Resume(t.Context(), "a", schedule.ResumeOptions{}); return err }, schedule.ErrNotFound},
		"resume, edited":        {lua.Resume, edit, func() error { _, err := s.Resume(t.Context(), "a", schedule.ResumeOptions{}); return err }, nil},
		"skip, deleted":         {lua.Skip, remove, func() error { return s.Skip(t.Context(), "a", c.Now().Add(20*time.Second)) }, schedule.ErrNotFound},
		"backfill, deleted": {lua.BackfillStart, remove, func() error {
			_, err := s.StartBackfill(t.Context(), claim.BackfillRequest{Schedule: "a", From: c.Now().Add(-time.Minute), To: c.Now()})
			return err
		}, schedule.ErrNotFound},
	} {
		b.put(every10("a"))
		if strings.HasPrefix(name, "resume") {
			if _, err := other.Pause(t.Context(), "a", schedule.PauseOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := test.script.Load(t.Context(), plain).Err(); err != nil {
			t.Fatal(err)
		}
		between.script, between.act = test.script, test.act
		if err := test.call(); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		if between.act != nil {
			t.Errorf("%s: the script did not run", name)
		}
		remove()
	}
	b.check()
}
