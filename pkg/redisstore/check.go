package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Check reads everything and reports broken invariants: that every schedule
// stands where its record says, that the verdict ranges cover everything up to
// the high-water mark once, that counts and lists agree with the ledger, that
// shards know the calendars that are stored. It is
// for tests and for doctors, and costs by what exists. What changes while it
// reads may look broken, so it looks up to four times and reports what it saw
// each time.
func (s *Store) Check(ctx context.Context) ([]Violation, error) {
	l, err := s.peek(ctx)
	if err != nil {
		return nil, err
	}
	var all []Violation
	for shard := range l.keys {
		found, err := s.checkShard(ctx, shard, len(l.keys), l.keys[shard])
		if err != nil {
			return nil, wrap("check", err)
		}
		all = append(all, found...)
	}
	found, err := s.checkCalendars(ctx, l)
	if err != nil {
		return nil, wrap("check", err)
	}
	all = append(all, found...)
	slices.SortFunc(all, compareViolations)
	return all, nil
}

// checkLooks is how often something must look broken in a row. With a few
// hundred firings a second one look in four finds something that is not.
const checkLooks = 4

// checkShard looks again as long as something looks broken.
func (s *Store) checkShard(ctx context.Context, shard, shards int, keys []string) ([]Violation, error) {
	var suspect map[string]Violation
	for look := range checkLooks {
		c := &checker{shard: shard, shards: shards, violations: map[string]Violation{}}
		if err := s.look(ctx, c, keys); err != nil {
			return nil, err
		}
		if look > 0 {
			maps.DeleteFunc(c.violations, func(about string, _ Violation) bool { _, before := suspect[about]; return !before })
		}
		if suspect = c.violations; len(suspect) == 0 {
			break
		}
	}
	return slices.Collect(maps.Values(suspect)), nil
}

// A checker holds everything of one shard.
type checker struct {
	shard, shards                                                int
	due, audit, requests, labels, backfillsDue                   map[string]float64
	definitions, states, ledger, outcomes, meta, opened, buffers map[string]string
	skips, backfills                                             map[string]string

	records    map[schedule.ID]record
	firings    map[schedule.ID][]firing
	lastToken  int64                // that a record holds
	violations map[string]Violation // by what is broken of what; the numbers may move between two looks
}

// A firing is what scripts/lua/lib/firing.lua writes, as far as Check needs
// it.
type firing struct {
	id         string
	generation int64
	buffered   bool
}

// report tells of what a repair makes right. The first argument says of what:
// the others may move between two looks.
func (c *checker) report(format string, args ...any) {
	c.add(ViolationIndex, format+"\x00"+fmt.Sprint(args[0]), fmt.Sprintf(format, args...))
}

// reportEach is report where one thing may have several such faults, and
// nothing in the sentence moves.
func (c *checker) reportEach(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.add(ViolationIndex, text, text)
}

// add notes a violation; about is the same at every look.
func (c *checker) add(kind ViolationKind, about, text string) {
	c.violations[about] = Violation{Kind: kind, Shard: c.shard, Text: printable(text)}
}

func (c *checker) load(ctx context.Context, client redis.UniversalClient, keys []string) error {
	for key, to := range map[int]*map[string]float64{keyDue: &c.due, keyAudit: &c.audit, keyRequest: &c.requests, keyLabel: &c.labels,
		keyBackfillDue: &c.backfillsDue} {
		if err := loadScores(ctx, client, keys[key], to); err != nil {
			return err
		}
	}
	for key, to := range map[int]*map[string]string{keyDefinition: &c.definitions, keyState: &c.states, keyFiring: &c.ledger,
		keyOutcome: &c.outcomes, keyMeta: &c.meta, keyOpen: &c.opened, keyBuffer: &c.buffers, keySkip: &c.skips,
		keyBackfill: &c.backfills} {
		if err := loadFields(ctx, client, keys[key], to); err != nil {
			return err
		}
	}
	return nil
}

// checkPage is how much one command of Check reads.
const checkPage = 1000

func loadFields(ctx context.Context, client redis.UniversalClient, key string, to *map[string]string) error {
	*to = map[string]string{}
	for cursor := uint64(0); ; {
		fields, next, err := client.HScan(ctx, key, cursor, "", checkPage).Result()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(fields); i += 2 {
			(*to)[fields[i]] = fields[i+1]
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func loadScores(ctx context.Context, client redis.UniversalClient, key string, to *map[string]float64) error {
	*to = map[string]float64{}
	for first := int64(0); ; first += checkPage {
		members, err := client.ZRangeWithScores(ctx, key, first, first+checkPage-1).Result()
		if err != nil {
			return err
		}
		for _, m := range members {
			name, _ := m.Member.(string)
			(*to)[name] = m.Score
		}
		if len(members) < checkPage {
			return nil
		}
	}
}

func (c *checker) check() {
	c.decode()
	for id := range c.records {
		r := c.records[id]
		c.checkPlace(id, &r)
		c.checkVerdicts(id, &r)
		c.checkLedger(id, &r)
		c.checkIndex(id)
		c.checkSettings(id, &r)
	}
	c.checkStrays()
	c.checkCounters()
}

// decode reads every record once.
func (c *checker) decode() {
	c.records, c.firings = map[schedule.ID]record{}, map[schedule.ID][]firing{}
	for id, text := range c.states {
		r, err := decodeRecord(text)
		if err != nil {
			c.add(ViolationSchedule, id, fmt.Sprintf("%s: %v", id, err))
			continue
		}
		if len(r.flaws) > 0 {
			c.report("%s: its record holds %s: it counts as nothing, and the rest of the record stands", id, strings.Join(r.flaws, ", and "))
		}
		c.records[schedule.ID(id)] = r
	}
	for id, text := range c.ledger {
		c.decodeFiring(id, text)
	}
}

// decodeFiring reads an entry of the ledger.
func (c *checker) decodeFiring(id, text string) {
	parsed, ok := ledgerFiring(id)
	if !ok {
		c.report("the ledger holds %s, which is no firing: %s", shown(id), shown(text))
		return
	}
	if home := shardOf(parsed.Schedule, c.shards); home != c.shard {
		c.report("the ledger holds %s, which belongs into shard %02d: %s", id, home, shown(text))
		return
	}
	state, token, extra, err := readFiring(text)
	if err != nil {
		c.report("%s: %v", id, err)
	} else if extra != "" && parsed.Kind != claim.KindManual {
		c.report("%s carries what only a trigger gives", id)
	}
	c.sawToken(token)
	c.firings[parsed.Schedule] = append(c.firings[parsed.Schedule],
		firing{id: id, generation: parsed.Generation, buffered: state == claim.FiringBuffered})
}

func (c *checker) sawToken(token int64) {
	if token <= lastUsed {
		c.lastToken = max(c.lastToken, token)
	}
}

// longestFiring bounds the record of a firing in bytes, as scripts do.
const longestFiring = 1 << 20

// readFiring reads a record of the ledger, as far as it must be known here. It
// refuses what decode_firing in scripts/lua/lib/firing.lua refuses.
func readFiring(text string) (state claim.FiringState, token int64, extra string, err error) {
	f := fieldReader{rest: text}
	state = claim.FiringState(f.text())
	f.number() // attempt
	token = f.number()
	for range 6 { // lease_ms to begun_ms
		f.number()
	}
	for range 3 { // owner, worker, queue
		f.text()
	}
	if f.rest != "" && !f.bad {
		_, err = decodeExtra(f.rest)
	}
	known := len(state) == 1 && strings.Contains("IERWB", string(state))
	if err != nil || f.bad || !known || len(text) > longestFiring {
		return state, 0, "", fmt.Errorf("redisstore: %s is not the record of a firing", shown(text))
	}
	return state, token, f.rest, nil
}

// checkPlace checks that a schedule stands in the index of due times exactly
// where its record says (I1, I2).
func (c *checker) checkPlace(id schedule.ID, r *record) {
	score, placed := c.due[string(id)]
	if r.token != 0 {
		if !placed || score == math.Floor(score) {
			c.report("%s is claimed and stands at %v in due, not at a deadline", id, score)
		}
		return
	}
	want := int64(0)
	switch {
	case c.canFire(id, r):
		want = max(millis(r.next), millis(r.notBefore))
	case r.state == statePaused || r.state == stateDisabled:
		want = millis(r.until)
	}
	if placed != (want != 0) || placed && int64(score*10) != want*10 {
		c.report("%s (state %d) stands at %v in due, want %d (0: nowhere)", id, r.state, score, want)
	}
	if r.state == stateCompleted && !r.next.IsZero() {
		c.report("%s is completed and has a next time", id)
	}
	if r.state == stateActive && r.next.IsZero() && (r.policy&policyDelay == 0 || r.open == 0) {
		c.report("%s is active, has no next time and waits for nothing", id)
	}
}

func (c *checker) canFire(id schedule.ID, r *record) bool {
	if r.next.IsZero() {
		return false
	}
	_, known := c.ledger[string(claim.ScheduledFiring(id, r.generation, r.next))]
	return r.state == stateActive || r.state == stateProbing && (r.open == 0 || r.open == 1 && known)
}

// checkVerdicts checks that the ranges are disjoint, ascend and end at the
// high-water mark (I8).
func (c *checker) checkVerdicts(id schedule.ID, r *record) {
	last, fired, lost := int64(0), int64(0), len(r.flaws) > 0
	for _, v := range r.history {
		if v.Verdict < schedule.VerdictFired || v.Verdict > schedule.VerdictUnreadable {
			c.reportEach("%s: there is no verdict %d", id, v.Verdict)
		}
		if v.First.After(v.Last) || millis(v.First) <= last {
			c.report("%s: verdict range %+v is empty, or overlaps the one before", id, v)
		}
		if v.Count < 0 || v.Count > 1 && v.First.Equal(v.Last) {
			c.report("%s: verdict range %+v counts %d", id, v, v.Count)
		}
		last = millis(v.Last)
		if v.Verdict == schedule.VerdictFired {
			fired += v.Count
		}
		lost = lost || v.Verdict == schedule.VerdictUnreadable
	}
	if last != millis(r.highWater) {
		c.report("%s: the last verdict is for %d, the high-water mark is %d", id, last, millis(r.highWater))
	}
	if fired > r.fired || !lost && len(r.history) <= 32 && fired != r.fired {
		c.report("%s: %d scheduled times fired, the ranges that are kept say %d", id, r.fired, fired)
	}
	if older := r.closed(); older != r.ranges {
		c.report("%s: %d older verdict ranges, %d counted", id, older, r.ranges)
	}
}

// checkLedger checks counts and lists of a schedule against the ledger (I9,
// I10).
func (c *checker) checkLedger(id schedule.ID, r *record) {
	open, buffered := map[string]bool{}, map[string]bool{}
	for _, f := range c.firings[id] {
		if f.generation != r.generation {
			continue // of a schedule that was deleted: the auditor drops it
		}
		if f.buffered {
			buffered[f.id] = true
		} else {
			open[f.id] = true
		}
	}
	if len(open) != r.open || len(buffered) != r.buffered {
		c.report("%s: %d open and %d buffered in the ledger, %d and %d in the record", id, len(open), len(buffered), r.open, r.buffered)
	}
	for _, fid := range openFirings(id, c.opened[string(id)]) {
		if !open[fid] {
			c.reportEach("%s: %s is listed as open and is not", id, fid)
		}
	}
	if _, listed := c.opened[string(id)]; listed && r.policy&overlapMask == overlapNumbers[schedule.OverlapAllow] {
		c.report("%s keeps a list of open firings without an overlap policy", id)
	}
	waiting := openFirings(id, c.buffers[string(id)])
	if len(waiting) != min(len(buffered), maxOpen) {
		c.report("%s: %d buffered, %d listed", id, len(buffered), len(waiting))
	}
	for _, fid := range waiting {
		if !buffered[fid] {
			c.reportEach("%s: %s is listed as buffered and is not", id, fid)
		}
	}
	if (r.state == stateActive || r.state == stateCompleted) && r.buffered > 0 && r.open == 0 {
		c.report("%s: a buffered firing waits for nothing", id)
	}
	if (c.skips[string(id)] != "") != (r.policy&policySkips != 0) {
		c.report("%s: the list of times to skip is %q, the policy is %d", id, c.skips[string(id)], r.policy)
	}
}

// checkIndex checks that a schedule is found under its ID, labels and
// calendars.
func (c *checker) checkIndex(id schedule.ID) {
	text, ok := c.definitions[string(id)]
	if !ok {
		c.report("%s has no definition", id)
		return
	}
	var definition schedule.Schedule
	if json.Unmarshal([]byte(text), &definition) != nil {
		return
	}
	for _, name := range indexMembers(id, definition) {
		if _, ok := c.labels[name]; !ok {
			c.reportEach("%s is not indexed as %q", id, name)
		}
	}
}

// checkSettings checks that a record repeats what the definition says.
func (c *checker) checkSettings(id schedule.ID, r *record) {
	if want, ok := storedSettings(c.definitions[string(id)]); ok && r.settings() != want {
		c.report("%s: its record has %s, which its definition says", id, r.settings().unlike(want))
	}
}

// checkStrays looks for what belongs to no schedule, and for ledger entries
// without an audit time (I5).
func (c *checker) checkStrays() {
	for id := range c.due {
		if _, ok := c.states[id]; !ok {
			c.report("%s is due and does not exist", id)
		}
	}
	for id := range c.ledger {
		if _, ok := c.audit[id]; !ok {
			c.report("%s is open and has no audit time", id)
		}
	}
	for id := range c.audit {
		if _, ok := c.ledger[id]; !ok {
			c.report("%s has an audit time and is not open", id)
		}
	}
	for name, hash := range map[string]map[string]string{"def": c.definitions, "opn": c.opened, "buf": c.buffers, "skp": c.skips} {
		for id := range hash {
			if _, ok := c.states[id]; !ok {
				c.reportEach("%s holds %s, which does not exist", name, id)
			}
		}
	}
	for field := range c.outcomes {
		if request, isAnswer := strings.CutPrefix(field, ":"); isAnswer {
			if _, ok := c.requests[request]; !ok {
				c.report("out holds the answer to request %q, which is forgotten", request)
			}
			continue
		}
		id, _, _ := strings.Cut(field, ":")
		if _, ok := c.states[id]; !ok {
			c.report("out holds %s, which does not exist", field)
		}
	}
	c.checkBackfills()
	for name := range c.labels {
		_, id, _ := strings.Cut(strings.TrimPrefix(name, calendarMark), indexMark)
		if _, ok := c.states[id]; !ok {
			c.report("lbl holds %q, which does not exist", name)
		}
	}
}

// checkCounters compares the counters in meta with what they count.
func (c *checker) checkCounters() {
	want := map[string]int64{"active": 0, "paused": 0, "disabled": 0, "completed": 0, "claimed": 0, "buffered": 0}
	for _, r := range c.records {
		want[string(stateNames[r.state])]++
		want["buffered"] += int64(r.buffered)
		if r.token != 0 {
			want["claimed"]++
		}
		c.sawToken(r.token)
		c.sawToken(r.generation)
	}
	for name, count := range want {
		text, stored := c.meta[name]
		if got, err := strconv.ParseInt(text, 10, 64); got != count || stored && err != nil {
			c.add(ViolationIndex, "meta counts "+name, fmt.Sprintf("meta counts %s %s, there are %d", shown(cmp.Or(text, "no")), name, count))
		}
	}
	text, stored := c.meta["token"]
	granted, err := strconv.ParseInt(text, 10, 64)
	switch {
	case stored && (err != nil || granted < 0 || granted > lastToken):
		c.report("meta holds the token %.40q, which is none: nothing can be claimed or begun", text)
	case granted < c.lastToken:
		c.report("token %d was granted, meta knows %d", c.lastToken, granted)
	}
}

// checkBackfills checks that every backfill is looked at some day, and that
// its counts agree with the ledger.
func (c *checker) checkBackfills() {
	for name := range c.backfillsDue {
		if _, ok := c.backfills[name]; !ok {
			c.report("backfill %s is due and does not exist", name)
		}
	}
	for name, text := range c.backfills {
		b, err := readBackfill(name, text)
		if err != nil {
			c.report("backfill %s: %v", shown(name), err)
			continue
		}
		if _, ok := c.backfillsDue[name]; !ok {
			c.report("backfill %s is never looked at", name)
		}
		open := 0
		for _, f := range c.firings[b.Schedule] {
			if strings.HasPrefix(f.id, fmt.Sprintf("%s:%d:b%s.", b.Schedule, b.Generation, b.ID)) {
				open++
			}
		}
		if r, ok := c.records[b.Schedule]; ok && r.generation == b.Generation && open != b.Open {
			c.report("backfill %s has %d open in the ledger, %d in its record", name, open, b.Open)
		}
	}
}
