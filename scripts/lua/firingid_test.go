package lua

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/claim"
)

// splitter answers, for each argument, how split_firing reads it, "" when it
// does not.
func splitter(t testing.TB) *redis.Script {
	t.Helper()
	library := ""
	for _, name := range []string{"lib/shard.lua", "lib/firingid.lua"} {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		library += string(text)
	}
	return redis.NewScript(library + `
local answers = {}
for i, id in ipairs(ARGV) do
  local schedule, generation, key, at_ms = split_firing(id)
  answers[i] = schedule and schedule .. ":" .. generation .. ":" .. key .. " " .. decimal(at_ms) or ""
end
return answers`)
}

// reads says how split_firing must read an ID: as ParseFiringID does, but the
// ledger knows firings, not their tasks.
func reads(id string) string {
	f, err := claim.ParseFiringID(id)
	if err != nil || strings.Contains(id, "~") {
		return ""
	}
	at := int64(0)
	if f.Kind == claim.KindScheduled {
		at = f.ScheduledAt.UnixMilli()
	}
	return fmt.Sprintf("%s %d", id, at)
}

// compareReading has both sides read IDs.
func compareReading(t *testing.T, client redis.UniversalClient, script *redis.Script, ids []string) {
	t.Helper()
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	answers, err := script.Run(t.Context(), client, make([]string, 15), args...).StringSlice()
	if err != nil || len(answers) != len(ids) {
		t.Fatalf("split_firing of %d IDs = %d answers, %v", len(ids), len(answers), err)
	}
	for i, id := range ids {
		if want := reads(id); answers[i] != want {
			t.Errorf("split_firing(%q) = %q, want %q as ParseFiringID has it", id, answers[i], want)
		}
	}
}

// someFirings are IDs, and what differs from one in a single respect.
func someFirings() []string {
	long, request := strings.Repeat("s", 128), strings.Repeat("r", 36)
	ids := []string{"a:1:5", "a:0:5", "A.b_c-d:1893456000000001:1893553445678", "a:1:m-", "a:1:mreq-1_X", "a:1:m1893553445678", "a:1:bx.5",
		"a:1:b1.5", "a:9007199254740991:253402300799999", long + ":1:5", long + ":9007199254740991:b" + request + ".253402300799999",
		"a:1:m" + request, "a:1:b" + request + ".5", "a:1:5~1", "0:0:1", "b:1:b.5", "m:1:m"}
	none := []string{"", "a", "a:1", "a:1:", ":1:5", "::", "a::5", "a b:1:5", " a:1:5", "a:1:5 ", "a:1:5\n", "\na:1:5", "a\x00:1:5", "a:1:5\x00", "a:1:\x005",
		".a:1:5", "-a:1:5", "_a:1:5", "a{b}:1:5", "{a}:1:5", "ä:1:5", "a\xff:1:5", "a:x:5", "a:+1:5", "a:-1:5", "a:-0:5", "a:01:5", "a:00:5",
		"a:1.0:5", "a:1e3:5", "a:0x1:5", "a: 1:5", "a:9007199254740992:5", "a:9007199254740993:5", "a:9999999999999999:5", "a:10000000000000000:5",
		"a:9223372036854775807:5", "a:1:soon", "a:1:+5", "a:1:-5", "a:1:005", "a:1:0", "a:1:-0", "a:1:5.0", "a:1:5e3", "a:1:0x5", "a:1:inf", "a:1:nan",
		"a:1:253402300800000", "a:1:9007199254740991", "a:1:9223372036854775807", "a:1:99999999999999999999", "a:1:5:6", "a:1:5,", "a:1:5|",
		"a:1:m", "a:1:mx.y", "a:1:mx.5", "a:1:m.", "a:1:m x", "a:1:m" + request + "r", "a:1:m" + request + "5", "a:1:M1", "a:1:b", "a:1:bx", "a:1:b.5",
		"a:1:bx.", "a:1:bx.0", "a:1:bx.05", "a:1:bx.-5", "a:1:bx.y", "a:1:bx.5.5", "a:1:b..5", "a:1:bx.253402300800000", "a:1:bx.99999999999999999",
		"a:1:b" + request + "5.5", "a:1:B1.5", "a:1:r1", "a:1:rx.5", "a:1:garbage", "a:1:5~", "a:1:5~0", "a:1:5~x", "a:1:5~1~2", long + "s:1:5",
		long + long + ":1:5", "a:1:5" + strings.Repeat("0", 200), strings.Repeat(":", 300), "a:1:٥", "a:¹:5"}
	return append(ids, none...)
}

// Both sides draw one line between what is a firing and what is garbage:
// otherwise one counts what the other cannot name.
func TestSplitFiringReadsWhatParseFiringIDReads(t *testing.T) {
	if reads("a:1:5") != "a:1:5 5" || reads("a:1:mx") != "a:1:mx 0" || reads("a:1:5~1") != "" || reads("a:1:garbage") != "" {
		t.Fatal("ParseFiringID draws the line elsewhere")
	}
	script := splitter(t)
	for _, backend := range redistest.Backends()[:2] {
		t.Run(backend.Name, func(t *testing.T) {
			client := backend.Dial(t)
			compareReading(t, client, script, someFirings())
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 1))
			read := 0
			for range 40 {
				ids := make([]string, 250)
				for i := range ids {
					ids[i] = spoil(random, someFirings())
					if reads(ids[i]) != "" {
						read++
					}
				}
				compareReading(t, client, script, ids)
			}
			if read < 500 || read > 9_500 {
				t.Errorf("%d of 10,000 random IDs are IDs: they test one side only", read)
			}
		})
	}
}

// spoil changes up to three bytes of one of the IDs, or joins two.
func spoil(random *rand.Rand, ids []string) string {
	const bytes = "0019ambrz.:_-~+ {}|,\x00\xff\n"
	id := []byte(ids[random.IntN(len(ids))])
	if random.IntN(8) == 0 {
		other := ids[random.IntN(len(ids))]
		return string(id[:random.IntN(len(id)+1)]) + other[random.IntN(len(other)+1):]
	}
	for range random.IntN(4) {
		at, with := random.IntN(len(id)+1), bytes[random.IntN(len(bytes))]
		switch {
		case random.IntN(2) == 0 || at == len(id):
			id = append(id[:at], append([]byte{with}, id[at:]...)...)
		case random.IntN(2) == 0:
			id = append(id[:at], id[at+1:]...)
		default:
			id[at] = with
		}
	}
	return string(id)
}

// FuzzSplitFiring has both sides read whatever the fuzzer finds.
func FuzzSplitFiring(f *testing.F) {
	for _, id := range someFirings() {
		f.Add(id)
	}
	script := splitter(f)
	var clients []redis.UniversalClient
	for _, backend := range redistest.Backends()[:2] {
		clients = append(clients, backend.Dial(f))
	}
	f.Fuzz(func(t *testing.T, id string) {
		for _, client := range clients {
			compareReading(t, client, script, []string{id})
		}
	})
}
