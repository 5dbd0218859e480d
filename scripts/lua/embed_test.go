package lua

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// scripts are all that embed.go exports, by file name.
var scripts = map[string]*redis.Script{
	"announce": Announce, "audit": Audit, "backfill_due": BackfillDue, "backfill_halt": BackfillHalt,
	"backfill_start": BackfillStart, "backfill_step": BackfillStep, "look": Look, "begin": Begin, "calendars": Calendars, "calendars_done": CalendarsDone, "calendars_raise": CalendarsRaise, "claim": Claim, "complete": Complete,
	"cancel": Cancel, "configure": Configure, "drain": Drain, "finish": Finish, "heartbeat": Heartbeat, "insist": Insist, "lease_acquire": LeaseAcquire,
	"lease_lookup": LeaseLookup, "lease_release": LeaseRelease, "lease_renew": LeaseRenew, "mark": Mark,
	"members": Members, "pause": Pause, "put": Put, "read": Read, "redrive": Redrive, "release": Release,
	"periodic_claim": PeriodicClaim, "periodic_complete": PeriodicComplete, "periodic_ensure": PeriodicEnsure,
	"periodic_list": PeriodicList, "periodic_pause": PeriodicPause, "periodic_renew": PeriodicRenew,
	"periodic_resume": PeriodicResume, "periodic_trigger": PeriodicTrigger,
	"recount_firings": RecountFirings, "recount_schedules": RecountSchedules, "repair_backfills": RepairBackfills,
	"repair_firings": RepairFirings, "repair_records": RepairRecords, "repair_requests": RepairRequests, "repair_schedules": RepairSchedules, "repair_token": RepairToken,
	"remove": Remove, "renew": Renew, "resume": Resume, "settle": Settle, "skip": Skip, "stats": Stats, "trigger": Trigger,
}

// names lists the files of a directory, without the suffix.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".lua"); ok {
			found = append(found, name)
		}
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := files.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryFileIsExported(t *testing.T) {
	for _, name := range names(t, ".") {
		if scripts[name] == nil {
			t.Errorf("%s.lua is not exported, or not listed in this test", name)
		}
	}
}

func TestEveryScriptLoads(t *testing.T) {
	for _, backend := range redistest.Backends()[:2] {
		t.Run(backend.Name, func(t *testing.T) {
			client := backend.Dial(t)
			for name, script := range scripts {
				if err := script.Load(t.Context(), client).Err(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// split separates the header from the body.
func split(text string) (header, body []string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "--") {
			return lines[:i], lines[i:]
		}
	}
	return lines, nil
}

func TestEveryHeaderIsAContract(t *testing.T) {
	for _, name := range names(t, ".") {
		header, body := split(read(t, name+".lua"))
		if !strings.HasPrefix(header[0], "-- "+name+": ") {
			t.Errorf("%s: the first line is %q, not its name and what it does", name, header[0])
		}
		for _, word := range []string{"-- KEYS[", "-- Returns  ", "-- Resend   ", "-- Writes   ", "-- Cost     "} {
			if !slices.ContainsFunc(header, func(line string) bool { return strings.HasPrefix(line, word) }) {
				t.Errorf("%s: the header has no line that begins with %q", name, word)
			}
		}
		if len(body) > 60 {
			t.Errorf("%s: the body has %d lines, at most 60", name, len(body))
		}
		for _, mark := range []string{"-- Decide.", "-- Apply."} {
			if !slices.Contains(body, mark) {
				t.Errorf("%s: the body has no line %q", name, mark)
			}
		}
	}
	for _, name := range names(t, "lib") {
		if n := strings.Count(read(t, "lib/"+name+".lua"), "\n"); n > 90 {
			t.Errorf("lib/%s: %d lines, at most 90", name, n)
		}
	}
}

var (
	headerSlot = regexp.MustCompile(`^-- (KEYS|ARGV)\[(\d+)(?:\.\.(\d*))?\]`)
	bodySlot   = regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`)
	restSlot   = regexp.MustCompile(`(ARGV)\[[^\]\d][^\]]*\]|#ARGV`)
)

// declared returns the slots of a header, and where its open end begins.
func declared(header []string) (slots map[string]bool, rest int) {
	slots = map[string]bool{}
	for _, line := range header {
		m := headerSlot.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		first, _ := strconv.Atoi(m[2])
		last := first
		switch {
		case m[3] != "":
			last, _ = strconv.Atoi(m[3])
		case strings.Contains(m[0], ".."):
			rest = first
			continue
		}
		for n := first; n <= last; n++ {
			slots[m[1]+"["+strconv.Itoa(n)+"]"] = true
		}
	}
	return slots, rest
}

func TestHeaderSlotsAreBodySlots(t *testing.T) {
	for _, name := range names(t, ".") {
		header, _ := split(read(t, name+".lua"))
		slots, rest := declared(header)
		text := strings.Join(code(source(name+".lua")), "\n")
		used := map[string]bool{}
		for _, m := range bodySlot.FindAllString(text, -1) {
			used[m] = true
			if !slots[m] {
				t.Errorf("%s: the body uses %s, the header does not name it", name, m)
			}
		}
		if strings.Contains(text, "unpack(KEYS)") {
			for n := 1; n <= 15; n++ {
				used["KEYS["+strconv.Itoa(n)+"]"] = true
			}
		}
		for slot := range slots {
			if !used[slot] {
				t.Errorf("%s: the header names %s, the body does not use it", name, slot)
			}
		}
		if open := restSlot.MatchString(text); open != (rest > 0) {
			t.Errorf("%s: the header has an open end: %v, the body reads one: %v", name, rest > 0, open)
		}
	}
}

// code returns the lines of a text without comments.
func code(text string) []string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if before, _, _ := strings.Cut(line, "--"); strings.TrimSpace(before) != "" {
			lines = append(lines, before)
		}
	}
	return lines
}

func TestIncludesAreThereAndOnce(t *testing.T) {
	for _, name := range names(t, ".") {
		header, body := split(read(t, name+".lua"))
		seen := map[string]bool{}
		for _, line := range header {
			include, ok := strings.CutPrefix(line, "-- @include ")
			if !ok {
				continue
			}
			if seen[include] {
				t.Errorf("%s includes %s twice", name, include)
			}
			seen[include] = true
		}
		for _, line := range body {
			if strings.Contains(line, "@include") {
				t.Errorf("%s: %q: includes belong to the header", name, line)
			}
		}
	}
}

// unsafe are words with the reason why a script must not hold them.
var unsafe = []struct {
	pattern *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`\b(struct|cmsgpack|cjson|bit)\.`), "miniredis has no such library, or it loses digits"},
	{regexp.MustCompile(`"(SCAN|HSCAN|ZSCAN|SSCAN|KEYS)"`), "work is bounded by what is asked for, not by what exists"},
	{regexp.MustCompile(`"HEXPIRE"`), "Redis 7.0 has none"},
	{regexp.MustCompile(`\btostring\(`), "loses digits above 14: use decimal"},
	{regexp.MustCompile(`#!lua`), "miniredis has none"},
	{regexp.MustCompile(`_ms\s*\.\.|\.\.\s*[a-z_.]*_ms\b|token\s*\.\.|\.\.\s*[a-z_.]*token\b`),
		"a number above 14 digits loses its tail in a concatenation: use decimal"},
}

func TestScriptsHoldNothingUnsafe(t *testing.T) {
	for _, dir := range []string{".", "lib"} {
		for _, name := range names(t, dir) {
			path := strings.TrimPrefix(dir+"/"+name+".lua", "./")
			text := read(t, path)
			for i, line := range strings.Split(text, "\n") {
				for _, rule := range unsafe {
					if before, _, _ := strings.Cut(line, "--"); rule.pattern.MatchString(before) {
						t.Errorf("%s:%d: %q: %s", path, i+1, strings.TrimSpace(line), rule.reason)
					}
				}
			}
		}
	}
}

func TestMissingIncludePanics(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "lib/nowhere.lua") {
			t.Errorf("recovered %q, want the name of the missing file", got)
		}
	}()
	source("lib/nowhere.lua")
}
