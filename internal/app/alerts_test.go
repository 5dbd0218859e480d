package app

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/worker"
)

// alertRules cuts the rules out of the manual.
func alertRules(t *testing.T) string {
	t.Helper()
	manual, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(manual), "```yaml\ngroups:\n")
	rules, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		t.Fatal("docs/OPERATIONS.md has no rules for alerts")
	}
	return "groups:\n" + rules + "\n"
}

// TestAlertRules runs the rules of the manual through promtool, where it is
// installed, against testdata/alerts_test.yml.
func TestAlertRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("BELFRY_TEST_REQUIRE_PROMTOOL") == "1" {
			t.Fatalf("BELFRY_TEST_REQUIRE_PROMTOOL=1 and there is no promtool: %v", err)
		}
		t.Skip("promtool is not installed; Debian and Ubuntu have it in prometheus")
	}
	cases, err := os.ReadFile("testdata/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"alerts.yml": alertRules(t), "alerts_test.yml": string(cases)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = folder
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// The series that the rules are tested with are served so, each rule is tested,
// and the rules read no others.
func TestAlertRulesAreTestedWithWhatIsServed(t *testing.T) {
	text, err := os.ReadFile("testdata/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	cases, rules, now := string(text), alertRules(t), time.Now()
	w := httptest.NewRecorder()
	newMetrics("v1", true).handler(measuredOnce{worker.Counts{ClaimedAt: now, SweptAt: now}}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	served := "\n" + w.Body.String()
	given := regexp.MustCompile(`series: '([a-z_]+)\{instance="[ab]",?([^}]*)\}'`).FindAllStringSubmatch(cases, -1)
	if len(given) < 30 || len(given) != strings.Count(cases, "series: '") {
		t.Fatalf("%d series of %d can be read", len(given), strings.Count(cases, "series: '"))
	}
	for _, m := range given {
		series := m[1]
		if m[2] != "" {
			series += "{" + m[2] + "}"
		}
		if !strings.Contains(served, "\n"+series+" ") {
			t.Errorf("the rules are tested with %s, which is not served", series)
		}
	}
	for _, name := range regexp.MustCompile(`belfry_[a-z_]+`).FindAllString(rules, -1) {
		if !strings.Contains(cases, "'"+name+"{") {
			t.Errorf("a rule reads %s, with which it is not tested", name)
		}
	}
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(alerts) < 7 {
		t.Fatalf("%d alerts", len(alerts))
	}
	for _, m := range alerts {
		if !regexp.MustCompile(`alertname: ` + m[1] + `,.*exp_alerts: \[\{`).MatchString(cases) {
			t.Errorf("no test sees %s fire", m[1])
		}
	}
}
