package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/internal/doctor"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

type doctorFlags struct{ fix, production bool }

func newDoctor(s *session) *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Examine Redis, the workers and everything stored, and say what to do",
		Long: `Examine the server (version, eviction policy, persistence, memory, clock,
scripts), the workers (alive, time zone data, versions, queues and types that
nobody serves) and what is stored (unusable, overdue and failing schedules,
retention and catch-up, tokens that are ahead of the clock, broken invariants). Each finding says what to do. What a
server denies, such as CONFIG, is "unknown". It reads everything, so it takes as
long as there are schedules.

--fix repairs what harms nobody: the eviction policy while there is no memory
limit, queues that asynq's list lacks, entries of queues whose task has no record, indexes, lists and counters that
disagree with the records, records that disagree with the definitions or whose verdicts cannot be read, what stands
in the ledger and is no firing, and calendars that went back without the shards that use them. Workers may go on meanwhile; they do the same,
slowly. Keys of the wrong type, which stop their shard, are renamed to KEY:aside:TIME by --fix alone. --production is stricter: an embedded
store, missing persistence and vulnerable versions are errors.

Exit codes: 0 nothing to worry about, 8 there are errors, 7 store unreachable.`,
		Example: `  admin doctor
  admin doctor --fix -o json`,
		Args: arguments(0, 0, "nothing"),
		RunE: func(*cobra.Command, []string) error { return s.doctor(f) },
	}
	cmd.Flags().BoolVar(&f.fix, "fix", false, "repair what can be repaired without harm")
	cmd.Flags().BoolVar(&f.production, "production", false, "judge as for production")
	return cmd
}

// A doctorJSON is what doctor prints.
type doctorJSON struct {
	Worst    doctor.Level     `json:"worst"`
	Findings []doctor.Finding `json:"findings"`
}

func (s *session) doctor(f *doctorFlags) error {
	facts, err := s.facts(f.production)
	if err != nil {
		return err
	}
	findings := doctor.Examine(facts)
	if f.fix {
		findings = append(findings, s.fix(findings)...)
	}
	worst := doctor.Worst(findings)
	v := view{data: doctorJSON{worst, findings}, table: func(w io.Writer) { s.showFindings(w, findings) }}
	for _, one := range findings {
		if one.Level != doctor.OK && !one.Fixed {
			v.names = append(v.names, one.Check)
		}
	}
	v.names = slices.Compact(v.names)
	if err := s.emit(v); err != nil {
		return err
	}
	if worst == doctor.Error {
		return silentCode(exitCondition)
	}
	return nil
}

// fix repairs findings and marks them. It returns what came to light only then.
func (s *session) fix(findings []doctor.Finding) []doctor.Finding {
	var broken []*doctor.Finding
	for i := range findings {
		one := &findings[i]
		if one.Fix == doctor.FixIndexes {
			broken = append(broken, one)
			continue
		}
		if one.Fix == "" {
			continue
		}
		ctx, cancel := s.call()
		err := s.stores.Server.Fix(ctx, one.Fix, one.About)
		cancel()
		if err != nil {
			s.warn("%s could not be repaired: %s", one.Check, describe(err, s.address))
			continue
		}
		one.Fixed = true
	}
	if len(broken) == 0 {
		return nil
	}
	return s.fixIndexes(broken)
}

// fixIndexes repairs all indexes and marks what is not found any more. It takes
// as long as there are schedules, in steps that are short each. It returns what
// is wrong and was hidden before.
func (s *session) fixIndexes(broken []*doctor.Finding) []doctor.Finding {
	err := s.stores.Server.Fix(s.ctx, doctor.FixIndexes, "")
	var left []redisstore.Violation
	if err == nil {
		left, err = s.stores.Server.Check(s.ctx)
	}
	if err != nil {
		s.warn("indexes could not be repaired: %s", describe(err, s.address))
		return nil
	}
	summarised := false
	for _, one := range broken {
		one.Fixed = !slices.ContainsFunc(left, one.Tells) && (len(left) == 0 || !one.Summary)
		if one.Check == doctor.CheckReading {
			one.Fixed = !slices.ContainsFunc(left, func(v redisstore.Violation) bool { return v.Kind == redisstore.ViolationShard })
		} else {
			summarised = summarised || one.Summary
		}
	}
	if summarised {
		return nil // what is left may be among those that were not told one by one
	}
	left = slices.DeleteFunc(left, func(v redisstore.Violation) bool {
		return slices.ContainsFunc(broken, func(one *doctor.Finding) bool { return one.Tells(v) })
	})
	return doctor.Broken(left)
}

var levelCells = map[doctor.Level]cell{
	doctor.OK: {"ok", green}, doctor.Unknown: {"unknown", yellow}, doctor.Warning: {"WARN", yellow}, doctor.Error: {"ERROR", red},
}

func (s *session) showFindings(w io.Writer, findings []doctor.Finding) {
	painted := s.painted(s.env.Terminal.Stdout)
	counts := map[doctor.Level]int{}
	for _, one := range findings {
		level := levelCells[one.Level]
		if one.Fixed {
			level = cell{"fixed", green}
		} else {
			counts[one.Level]++
		}
		pad := fmt.Sprintf("%-7s", level.text)
		fmt.Fprintf(w, "%s  %-11s  %s\n", paint(pad, level.color, painted), one.Check, visible(one.Seen))
		if one.Do != "" && !one.Fixed {
			fmt.Fprintf(w, "%23s%s\n", "→ ", visible(one.Do))
		}
		if one.Fix == doctor.FixEviction && one.Fixed {
			fmt.Fprintf(w, "%23s%s\n", "→ ", "set until the server restarts; write it into its configuration as well")
		}
	}
	if counts[doctor.Error]+counts[doctor.Warning]+counts[doctor.Unknown] == 0 {
		s.note("nothing to worry about.")
		return
	}
	s.note("%s, %s, %d unknown.", count(counts[doctor.Error], "error"), count(counts[doctor.Warning], "warning"), counts[doctor.Unknown])
}

// facts gathers all that doctor judges.
func (s *session) facts(production bool) (doctor.Facts, error) {
	stores, err := s.store()
	if err != nil {
		return doctor.Facts{}, err
	}
	if stores.Server == nil {
		return doctor.Facts{}, errors.New("admincli: this store has no server to examine")
	}
	f := doctor.Facts{Now: s.ownNow(), Production: production, TimeZone: s.env.TimeZoneData()}
	f.AuditAfter, _ = time.ParseDuration(s.env.Environ["BELFRY_AUDIT_AFTER"]) // of another process; its own start refuses what is wrong
	steps := []func(context.Context) error{
		func(ctx context.Context) (err error) { f.Nodes, err = stores.Server.Nodes(ctx); return err },
		func(ctx context.Context) error { f.ScriptErr = stores.Server.Script(ctx); return nil },
		func(ctx context.Context) (err error) {
			if f.ScriptErr == nil {
				f.Stats, err = stores.Catalog.Stats(ctx)
			}
			return err
		},
	}
	for i, step := range steps {
		if err := s.within(step); err != nil && (i < 2 || s.hidesAll(err)) {
			return f, err
		} else if err != nil {
			f.Unread = append(f.Unread, err)
		}
	}
	if f.ScriptErr != nil {
		return f, nil // nothing stored can be read without scripts
	}
	return f, s.storedFacts(&f)
}

// within bounds one step of several calls.
func (s *session) within(step func(context.Context) error) error {
	ctx, cancel := s.call()
	defer cancel()
	return step(ctx)
}

// hidesAll reports whether nothing else can be read after err. What one shard
// or one key refuses must not hide what is wrong with all others.
func (s *session) hidesAll(err error) bool {
	var refused redis.Error
	return !errors.As(err, &refused) || s.interrupted() || isUnreachable(err) || isUnauthorised(err) || notLoggedIn(err)
}

// storedFacts are those that cost by what exists.
func (s *session) storedFacts(f *doctor.Facts) error {
	steps := []func() error{
		func() error {
			return s.within(func(ctx context.Context) (err error) {
				f.Members, err = s.stores.Roster.Members(ctx, workerMaxAge)
				return err
			})
		},
		func() error {
			return s.pages(schedule.ListOptions{}, func(page []schedule.Entry) (bool, error) {
				for _, e := range page {
					f.Schedules.Add(e, f.Stats.Now, f.AuditAfter)
				}
				return true, nil
			})
		},
		func() (err error) {
			f.Queues, err = s.queueFacts(f.Schedules.Queues)
			return err
		},
		func() error {
			return s.within(func(ctx context.Context) (err error) {
				f.Tokens, err = s.stores.Server.Tokens(ctx)
				return err
			})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil && s.hidesAll(err) {
			return err
		} else if err != nil {
			f.Unread = append(f.Unread, err)
		}
	}
	return s.within(func(ctx context.Context) error {
		f.Violations, f.CheckErr = s.stores.Server.Check(ctx)
		return nil
	})
}

// queueFacts looks at asynq's queues and at those that schedules use.
func (s *session) queueFacts(used map[string]int) (map[string]doctor.Queue, error) {
	tasks := s.stores.Tasks
	if tasks == nil {
		return nil, nil
	}
	listed, err := tasks.Queues()
	if err != nil {
		return nil, err
	}
	servers, err := tasks.Servers()
	if hasWord(err, "READONLY") {
		return nil, nil // asynq's look at its servers writes; that this is a replica is told elsewhere
	}
	if err != nil {
		return nil, err
	}
	all := map[string]doctor.Queue{}
	for _, name := range listed {
		q, err := s.keysOf(name)
		if err != nil && (s.interrupted() || isUnreachable(err)) {
			return nil, err
		}
		// One queue must not hide what is wrong with all else.
		all[name] = doctor.Queue{Listed: true, Err: err, Paused: q.Paused, Pending: q.Counts["pending"], Torn: q.Torn(), Fixable: len(q.Orphans) > 0}
	}
	for name := range used {
		if _, known := all[name]; !known {
			all[name] = doctor.Queue{}
		}
	}
	for _, server := range servers {
		for name := range server.Queues {
			q := all[name]
			q.Served = true
			all[name] = q
		}
	}
	return all, nil
}
