package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fixedIn lists, for each release line, the first version without the holes in
// the script engine of CVE-2025-49844, 46817, 46818 and 46819. Everybody who
// may run a script can use them, and every worker may.
var fixedIn = map[string][][3]int{
	"redis":  {{6, 2, 20}, {7, 2, 11}, {7, 4, 6}, {8, 0, 4}, {8, 2, 2}},
	"valkey": {{7, 2, 11}, {8, 0, 6}, {8, 1, 4}},
}

// oldest is the first release line that has all commands that Belfry needs.
var oldest = [3]int{6, 2, 0}

func version(f Facts, n Node) Finding {
	product, text := "redis", n.Info["redis_version"]
	if v := n.Info["valkey_version"]; v != "" {
		product, text = "valkey", v
	}
	finding := Finding{Check: "version", Level: OK, Seen: product + " " + text}
	v, ok := parseVersion(text)
	switch {
	case text == "":
		return Finding{Check: "version", Level: Unknown, Seen: "the server does not tell its version", Do: "allow INFO for this user, or make sure that the server is up to date"}
	case !ok:
		finding.Level, finding.Do = Unknown, "make sure by hand that it is up to date"
	case slices.Compare(v[:], oldest[:]) < 0:
		finding.Level, finding.Do = Error, "upgrade: Belfry needs 6.2 or later"
	case product == "redis" && v[0] == 7 && v[1] == 0:
		finding.Level = Warning
		finding.Do = "7.0 gets fixes from distributions only: keep the package up to date (Debian 12: 7.0.15-1~deb12u10), or move to 7.2.11, 7.4.6, 8.2.2 or later"
	default:
		if floor, old := below(product, v); old {
			finding.Level = severe(f)
			finding.Do = fmt.Sprintf("upgrade to %s or later: scripts can break out of this version (CVE-2025-49844)", floor)
		}
	}
	return finding
}

// below finds the version to upgrade to: that of the same line, or of the next
// line that was fixed.
func below(product string, v [3]int) (string, bool) {
	for _, floor := range fixedIn[product] {
		sameLine := floor[0] == v[0] && floor[1] == v[1]
		if sameLine || cmp.Or(cmp.Compare(floor[0], v[0]), cmp.Compare(floor[1], v[1])) > 0 {
			return fmt.Sprintf("%d.%d.%d", floor[0], floor[1], floor[2]), slices.Compare(v[:], floor[:]) < 0
		}
	}
	return "", false // a later line than all that were vulnerable
}

func parseVersion(text string) ([3]int, bool) {
	var v [3]int
	parts := strings.SplitN(text, ".", 3)
	if len(parts) != len(v) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}
