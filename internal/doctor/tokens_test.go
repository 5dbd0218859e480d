package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/redisstore"
)

func TestTokensAheadAreAWarningUntilFewAreLeft(t *testing.T) {
	f := healthy()
	f.Tokens = []TokenAhead{
		{Shard: 3, Token: 4000000000000000, At: time.UnixMicro(4000000000000000), Ahead: 48 * time.Hour, Left: 5007199254740991},
		{Shard: 4, Token: 9007199254740000, At: time.UnixMicro(9007199254740000), Ahead: 9000 * time.Hour, Left: 991},
	}
	var found []Finding
	for _, one := range Examine(f) {
		if one.Check == "tokens" {
			found = append(found, one)
		}
	}
	if len(found) != 2 || found[0].Level != Warning || found[1].Level != Error {
		t.Fatalf("findings = %+v, want a warning and an error", found)
	}
	for i, words := range [][]string{
		{"shard 03", "4000000000000000", "2096-10-02", "2 days ahead", "5007199254740991 more", "nothing needs to be done", "never lowers"},
		{"shard 04", "9007199254740000", "375 days ahead", "991 more", "new namespace", "never lowers"},
	} {
		for _, word := range words {
			if !strings.Contains(found[i].Seen+found[i].Do, word) {
				t.Errorf("%q → %q: does not say %q", found[i].Seen, found[i].Do, word)
			}
		}
		if found[i].Fix != "" {
			t.Errorf("fix %q is offered: a token must not be lowered", found[i].Fix)
		}
	}
}

// What cannot be read is an error of its own and hides nothing else.
func TestWhatCannotBeReadIsAFinding(t *testing.T) {
	f := healthy()
	f.Unread = []error{errors.New("WRONGTYPE of something")}
	f.Violations = []redisstore.Violation{{Kind: redisstore.ViolationShard, Text: "a key is a string"}}
	one, ok := find(Examine(f), "reading")
	if !ok || one.Level != Error || one.Fix != FixIndexes || !one.Summary || !strings.Contains(one.Seen, "WRONGTYPE") {
		t.Errorf("finding = %+v", one)
	}
	if _, ok := find(Examine(f), "invariants"); !ok {
		t.Error("the invariants are hidden")
	}
}
