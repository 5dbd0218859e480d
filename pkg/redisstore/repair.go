package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/belfryhq/belfry/scripts/lua"
)

const (
	// DefaultRepairLimit is how many entries one step of a Repair looks at.
	DefaultRepairLimit = 100
	// repairGrace is the deadline of a claim whose own is lost.
	repairGrace = 10 * time.Second
	// repairLongest is how far away a claim's deadline or an audit may be.
	repairLongest = time.Hour
	// repairWaiting is how far away the audit of a firing that waits for a
	// retry may be, and the look at a backfill that ended: both wait for days.
	repairWaiting = 30 * 24 * time.Hour
	// mostSuspects bounds how many schedules one round counts again.
	mostSuspects = 10_000
	// mostRecounted bounds how many open firings of one schedule are counted
	// again: a script stops everybody else while it runs.
	mostRecounted = 10_000
)

// RepairOptions configure a Repair.
type RepairOptions struct {
	Limit int // entries of one step, about; 0 is DefaultRepairLimit, at most 1000
	Shard int // to begin with; taken modulo the number of shards
}

// A Repair goes through everything that a namespace holds, a bounded step at a
// time, and makes indexes, lists and counters say what the records say. Nothing
// needs to stop meanwhile: what a step changes it decides in one script. Several
// repairs may run at once. It is for one goroutine.
//
// Records of schedules are the truth and are not restored: a schedule whose
// record is lost or cannot be read needs a Put, and Check says so. Verdicts that
// cannot be read are dropped, and the rest of their record stays. What stands
// in the ledger under a name that is no firing ID of that shard is removed.
type Repair struct {
	store *Store
	limit int
	first int

	shard    int
	part     int
	cursor   uint64   // of a scan
	name     string   // of the index of names
	counted  string   // the schedule that the recount of states has come to
	newest   int64    // the largest token that the shard's records hold; -1: that was dealt with
	pending  []string // scanned and not looked at; with hashes a value follows each
	ledger   ledgerCount
	suspects map[string]bool // schedules whose counts may be off
	started  bool
}

// A Repaired names one repair.
type Repaired struct {
	Name string // of a schedule, firing, backfill, request or counter; "calendars"
	Key  string // what was wrong of it: the name of a key, see docs/PROTOCOL.md
	// Was is the record of a firing, a backfill or a schedule that was removed or
	// changed, cut when it is long; "" with every other repair.
	Was string
}

// A RepairStep is what one step did.
type RepairStep struct {
	Looked   int
	Repaired []Repaired
	Done     bool // every shard was gone through once more
}

// NewRepair begins a repair. It returns a *schedule.FieldError for a limit out
// of bounds.
func (s *Store) NewRepair(options RepairOptions) (*Repair, error) {
	if options.Limit == 0 {
		options.Limit = DefaultRepairLimit
	}
	if err := checkLimit(options.Limit); err != nil {
		return nil, err
	}
	return &Repair{store: s, limit: options.Limit, first: max(0, options.Shard), suspects: map[string]bool{}}, nil
}

// RepairAll repairs everything and returns what was wrong. Keys of the wrong
// type, which hold nothing that can be read, it renames first; a Repair leaves
// that to somebody who asked for it. Calendars it heals as HealCalendars does. It goes through all
// twice at most, because a schedule that changes while it is counted is counted
// again.
func (s *Store) RepairAll(ctx context.Context) ([]Repaired, error) {
	r, err := s.NewRepair(RepairOptions{Limit: maxBatch / 2})
	if err != nil {
		return nil, err
	}
	l, err := s.peek(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.putAside(ctx, l)
	if err != nil {
		return all, err
	}
	for range 2 {
		found := len(all)
		for done := false; !done; {
			step, err := r.Step(ctx)
			if err != nil {
				return all, err
			}
			all, done = append(all, step.Repaired...), step.Done
		}
		if len(all) == found {
			break
		}
	}
	healed, err := s.HealCalendars(ctx)
	if healed.Version > 0 {
		all = append(all, Repaired{Name: "calendars", Key: "conf"})
	}
	return all, err
}

// A part of a repair goes through one key of a shard.
type part struct {
	key int
	// values says that each entry of a scan comes with a value.
	values bool
	scan   func(ctx context.Context, client redis.UniversalClient, key string, cursor uint64, count int64) *redis.ScanCmd
	act    func(r *Repair, ctx context.Context, l *layout, entries []string) (reply, error)
}

func scanHash(ctx context.Context, client redis.UniversalClient, key string, cursor uint64, count int64) *redis.ScanCmd {
	return client.HScan(ctx, key, cursor, "", count)
}

func scanSet(ctx context.Context, client redis.UniversalClient, key string, cursor uint64, count int64) *redis.ScanCmd {
	return client.ZScan(ctx, key, cursor, "", count)
}

// parts are gone through in this order: the ledger before the schedules, whose
// counts are held against it, and names before counters, which are counted by
// name.
var parts = []part{
	{keyFiring, true, scanHash, (*Repair).firings},
	{keyAudit, true, scanSet, (*Repair).audits},
	{keyBackfill, true, scanHash, (*Repair).backfills},
	{keyBackfillDue, true, scanSet, (*Repair).backfillLooks},
	{keyState, true, scanHash, (*Repair).schedules},
	{keyDue, true, scanSet, (*Repair).places},
	{keyOpen, true, scanHash, (*Repair).places},
	{keyBuffer, true, scanHash, (*Repair).places},
	{keySkip, true, scanHash, (*Repair).places},
	{keyOutcome, true, scanHash, (*Repair).outcomes},
	{keyLabel, false, nil, (*Repair).names},
}

// Step goes on with the repair. After an error it may be called again: the same
// step is repeated, but a shard that refuses it, as one with a key of the wrong
// type does, is left, so that it keeps no other from its repair.
func (r *Repair) Step(ctx context.Context) (RepairStep, error) {
	l, err := r.store.peek(ctx)
	if err != nil {
		return RepairStep{}, err
	}
	step, err := r.step(ctx, l)
	var refused redis.Error
	if errors.As(err, &refused) && !IsUnavailable(err) {
		step.Done = r.leave(l)
	}
	return step, err
}

// leave goes to the next shard and reports whether that ends the round.
func (r *Repair) leave(l *layout) bool {
	r.shard, r.part, r.newest = (r.shard+1)%len(l.keys), 0, 0
	r.cursor, r.name, r.counted, r.pending = 0, "", "", nil
	clear(r.suspects)
	return r.shard == r.first
}

func (r *Repair) step(ctx context.Context, l *layout) (RepairStep, error) {
	if !r.started {
		r.started, r.shard = true, r.first%len(l.keys)
		r.first = r.shard
	}
	switch {
	case r.part < len(parts):
		return r.look(ctx, l, parts[r.part])
	case len(r.suspects) > 0:
		return r.recount(ctx, l)
	case r.newest >= 0:
		return r.token(ctx, l)
	}
	return r.recountSchedules(ctx, l)
}

// look goes on in one part.
func (r *Repair) look(ctx context.Context, l *layout, p part) (RepairStep, error) {
	width, last := 1, false
	if p.values {
		width = 2
	}
	if len(r.pending) == 0 {
		var err error
		if last, err = r.read(ctx, l, p); err != nil {
			return RepairStep{}, wrap("repair", err)
		}
	}
	entries := r.pending[:min(len(r.pending), width*r.limit)]
	step := RepairStep{Looked: len(entries) / width}
	if len(entries) > 0 {
		answer, err := p.act(r, ctx, l, entries)
		if err != nil {
			return RepairStep{}, err
		}
		if step.Repaired, err = repaired(&answer, 0); err != nil {
			return RepairStep{}, err
		}
		if p.key == keyFiring || p.key == keyBackfill || p.key == keyState {
			keepWas(step.Repaired, entries, shardKeyNames[p.key])
		}
	}
	r.pending = r.pending[len(entries):]
	if len(r.pending) == 0 && (last || p.scan != nil && r.cursor == 0) {
		r.part++
		r.cursor, r.name = 0, ""
	}
	return step, nil
}

// read reads more of a part. True says that an index of names is at its end;
// a scan is when its cursor is 0 again.
func (r *Repair) read(ctx context.Context, l *layout, p part) (bool, error) {
	key := l.keys[r.shard][p.key]
	if p.scan != nil {
		if r.cursor == 0 && p.key == keyFiring {
			r.ledger = ledgerCount{}
		}
		entries, cursor, err := p.scan(ctx, r.store.client, key, r.cursor, int64(r.limit)).Result()
		r.pending, r.cursor = entries, cursor
		return false, err
	}
	from := "-"
	if r.name != "" {
		from = "(" + r.name
	}
	names, err := r.store.client.ZRangeByLex(ctx, key, &redis.ZRangeBy{Min: from, Max: "+", Count: int64(r.limit)}).Result()
	if len(names) > 0 {
		r.name = names[len(names)-1]
	}
	r.pending = names
	return len(names) < r.limit, err
}

// repaired reads pairs of a name and a key.
func repaired(answer *reply, from int) ([]Repaired, error) {
	var all []Repaired
	for i := from; i+1 < len(answer.values); i += 2 {
		all = append(all, Repaired{Name: answer.text(i), Key: answer.text(i + 1)})
	}
	return all, answer.err
}

// keepWas adds to repairs of records what those were.
func keepWas(all []Repaired, entries []string, key string) {
	for i := range all {
		for n := 0; n+1 < len(entries) && all[i].Key == key; n += 2 {
			if entries[n] == all[i].Name {
				all[i].Was = strings.Clone(entries[n+1][:min(len(entries[n+1]), mostShown)])
			}
		}
	}
}

func (r *Repair) run(ctx context.Context, script *redis.Script, l *layout, args ...any) (reply, error) {
	return r.store.runShard(ctx, "repair", script, l, r.shard, args...)
}

// evens returns every second entry: a scan's names without its values.
func evens(entries []string) []any {
	var names []any
	for i := 0; i < len(entries); i += 2 {
		names = append(names, entries[i])
	}
	return names
}

func (r *Repair) firings(ctx context.Context, l *layout, entries []string) (reply, error) {
	for i := 0; i+1 < len(entries); i += 2 {
		if _, ok := ledgerFiring(entries[i]); !ok {
			continue // what it says counts for nothing
		}
		r.ledger.add(entries[i], entries[i+1])
		if _, token, _, err := readFiring(entries[i+1]); err == nil {
			r.sawToken(token)
		}
	}
	return r.audits(ctx, l, entries)
}

const (
	// lastToken is the largest token that scripts can count with.
	lastToken = 1<<53 - 1
	// lastUsed is the largest token that a record is believed. Tokens follow the
	// clock in microseconds, so no larger one is granted before the year 2255;
	// after one as large as lastToken none could ever be.
	lastUsed = lastToken - 1<<40
)

// sawToken notes a token that is in use.
func (r *Repair) sawToken(token int64) {
	if token <= lastUsed {
		r.newest = max(r.newest, token)
	}
}

// token repairs the last granted token of a shard.
func (r *Repair) token(ctx context.Context, l *layout) (RepairStep, error) {
	answer, err := r.run(ctx, lua.RepairToken, l, r.newest)
	if err != nil {
		return RepairStep{}, err
	}
	r.newest = -1
	found, err := repaired(&answer, 0)
	return RepairStep{Looked: 1, Repaired: found}, err
}

func (r *Repair) audits(ctx context.Context, l *layout, entries []string) (reply, error) {
	var ours, strays []any
	for _, id := range evens(entries) {
		if f, ok := ledgerFiring(fmt.Sprint(id)); ok && l.shardOf(f.Schedule) != r.shard {
			strays = append(strays, id)
		} else {
			ours = append(ours, id)
		}
	}
	args := append([]any{repairLongest.Milliseconds(), repairWaiting.Milliseconds(), len(strays)}, strays...)
	return r.run(ctx, lua.RepairFirings, l, append(args, ours...)...)
}

func (r *Repair) backfills(ctx context.Context, l *layout, entries []string) (reply, error) {
	for i := 0; i+1 < len(entries); i += 2 {
		b, err := readBackfill(entries[i], entries[i+1])
		if err != nil {
			continue // Check says so
		}
		r.ledger.known(b)
		if r.ledger.backfills[countName(b.Schedule, b.Generation)+":"+b.ID].open != b.Open {
			r.suspect(string(b.Schedule))
		}
	}
	return r.backfillLooks(ctx, l, entries)
}

func (r *Repair) backfillLooks(ctx context.Context, l *layout, entries []string) (reply, error) {
	return r.run(ctx, lua.RepairBackfills, l, append([]any{repairWaiting.Milliseconds()}, evens(entries)...)...)
}

// schedules repairs schedules that have a record.
func (r *Repair) schedules(ctx context.Context, l *layout, entries []string) (reply, error) {
	entries, removed, err := r.noSchedules(ctx, l, entries)
	if err != nil || len(entries) == 0 {
		return removed, err
	}
	ids := make([]string, 0, len(entries)/2)
	for _, id := range evens(entries) {
		ids = append(ids, fmt.Sprint(id))
	}
	definitions, err := r.store.client.HMGet(ctx, l.keys[r.shard][keyDefinition], ids...).Result()
	if err != nil {
		return reply{}, wrap("repair", err)
	}
	args, flawed := repairTerms(), []any{repairLongest.Milliseconds()}
	for i, id := range ids {
		text, _ := definitions[i].(string)
		record, err := decodeRecord(entries[2*i+1])
		if err != nil {
			continue // Check says so
		}
		flawed = append(flawed, mending(id, &record, text)...)
		r.sawToken(max(record.token, record.generation))
		if seen := r.ledger.schedules[countName(schedule.ID(id), record.generation)]; seen.open != record.open || seen.buffered != record.buffered {
			r.suspect(id)
		}
		args = append(args, id, record.generation, record.version)
		args = appendNames(args, indexMembers(schedule.ID(id), definitionOf(&observed{definition: text})), nil)
	}
	if len(flawed) > 1 {
		mended, err := r.run(ctx, lua.RepairRecords, l, flawed...)
		if err != nil {
			return reply{}, err
		}
		removed.values = append(removed.values, mended.values...)
	}
	answer, err := r.run(ctx, lua.RepairSchedules, l, args...)
	answer.values = append(answer.values, removed.values...)
	return answer, err
}

func repairTerms() []any { return []any{repairGrace.Milliseconds(), repairLongest.Milliseconds()} }

// appendNames appends what repair_schedules reads of the index of names.
func appendNames(args []any, right, wrong []string) []any {
	args = append(args, len(right), len(wrong))
	for _, name := range right {
		args = append(args, name)
	}
	for _, name := range wrong {
		args = append(args, name)
	}
	return args
}

// places repairs where something that may not exist is named.
func (r *Repair) places(ctx context.Context, l *layout, entries []string) (reply, error) {
	args := repairTerms()
	for _, id := range evens(entries) {
		args = append(args, id, "", 0, 0, 0)
	}
	return r.run(ctx, lua.RepairSchedules, l, args...)
}

// outcomes looks for outcomes of schedules that do not exist, and for answers
// to requests that are forgotten.
func (r *Repair) outcomes(ctx context.Context, l *layout, entries []string) (reply, error) {
	var ids []string
	var requests []any
	for i := 0; i < len(entries); i += 2 {
		if request, isAnswer := strings.CutPrefix(entries[i], ":"); isAnswer {
			requests = append(requests, request)
			continue
		}
		id, _, _ := strings.Cut(entries[i], ":")
		ids = append(ids, id, "")
	}
	answer, err := r.places(ctx, l, ids)
	if err != nil || len(requests) == 0 {
		return answer, err
	}
	more, err := r.store.run(ctx, "repair", lua.RepairRequests, l.keys[r.shard], requests...)
	answer.values = append(answer.values, more.values...)
	return answer, err
}

// names looks for members of the index of names that no definition asks for.
func (r *Repair) names(ctx context.Context, l *layout, names []string) (reply, error) {
	ids := make([]string, len(names))
	for i, name := range names {
		_, ids[i], _ = strings.Cut(strings.TrimPrefix(name, calendarMark), indexMark)
	}
	keys := l.keys[r.shard]
	records, err := r.store.client.HMGet(ctx, keys[keyState], ids...).Result()
	if err != nil {
		return reply{}, wrap("repair", err)
	}
	definitions, err := r.store.client.HMGet(ctx, keys[keyDefinition], ids...).Result() // after the records, see appendNames
	if err != nil {
		return reply{}, wrap("repair", err)
	}
	args := repairTerms()
	for i, name := range names {
		text, _ := records[i].(string)
		record, err := decodeRecord(text)
		if text != "" && err != nil {
			continue // Check says so
		}
		definition, _ := definitions[i].(string)
		if text != "" && wanted(name, schedule.ID(ids[i]), definition) {
			continue
		}
		args = appendNames(append(args, ids[i], record.generation, record.version), nil, []string{name})
	}
	if len(args) == len(repairTerms()) {
		return reply{}, nil
	}
	return r.run(ctx, lua.RepairSchedules, l, args...)
}

// wanted reports whether a definition asks for a member of the index of names.
func wanted(name string, id schedule.ID, definition string) bool {
	for _, want := range indexMembers(id, definitionOf(&observed{definition: definition})) {
		if name == want {
			return true
		}
	}
	return false
}
