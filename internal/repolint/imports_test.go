package repolint

import (
	"os/exec"
	"strings"
	"testing"
)

// forbidden says which package may not depend on which, even through others.
// A trailing "/..." stands for the tree.
var forbidden = []struct{ pkg, dep, reason string }{
	{"pkg/schedule", "github.com/...", "the engine is ours and stands alone"},
	{"pkg/claim", "github.com/redis/...", "contracts do not know the store"},
	{"pkg/claim", "github.com/hibiken/...", "contracts do not know the queue"},
	{"pkg/claim", module + "/pkg/redisstore", "imports flow one way"},
	{"pkg/claim", module + "/pkg/queue", "imports flow one way"},
	{"pkg/claim", module + "/pkg/worker", "imports flow one way"},
	{"pkg/redisstore", module + "/pkg/queue", "store and queue meet only in the worker"},
	{"pkg/redisstore", "github.com/hibiken/...", "the store does not know asynq"},
	{"pkg/queue", module + "/pkg/redisstore", "store and queue meet only in the worker"},
	{"pkg/queue", module + "/pkg/worker", "imports flow one way"},
	{"pkg/gocronx", module + "/pkg/worker", "gocron users link no worker"},
	{"pkg/gocronx", module + "/pkg/queue", "gocron users link no queue"},
	{"pkg/...", module + "/internal/...", "a library cannot lean on what its users cannot import"},
	{"pkg/...", "github.com/spf13/...", "asynq pulls in cast; the CLI framework stays out of the library"},
	{"pkg/...", "github.com/prometheus/...", "metrics are the program's; a library tells its observer"},
	{"pkg/...", "github.com/caarlos0/...", "configuration stops at internal/config"},
	{"pkg/...", "github.com/alicebob/...", "the fake server is for tests and the demo"},
	{"scripts/lua", module + "/pkg/...", "scripts know nothing of their callers"},
	{"internal/admincli", "github.com/alicebob/...", "the CLI talks to real stores only"},
	{"cmd/admin", module + "/internal/demo", "the demo lives in the worker"},
}

// exempt lists dependencies that a third party brings in.
var exempt = map[string]string{
	"github.com/spf13/cast":     "asynq",
	"github.com/spf13/cast/...": "asynq",
}

func TestImportsFlowOneWay(t *testing.T) {
	packages := listDeps(t)
	if len(packages) < 10 {
		t.Fatalf("go list named %d packages of the module; the list must be wrong", len(packages))
	}
	for pkg, deps := range packages {
		short := strings.TrimPrefix(pkg, module+"/")
		for _, rule := range forbidden {
			if !matches(short, rule.pkg) {
				continue
			}
			for _, dep := range deps {
				if dep == pkg || !matches(dep, rule.dep) || exempted(dep) {
					continue
				}
				t.Errorf("%s depends on %s: %s", short, dep, rule.reason)
			}
		}
	}
}

func TestScheduleImportsNoFilesAndNoNetwork(t *testing.T) {
	banned := map[string]string{
		"os":      "pure packages read no files and no environment",
		"net":     "pure packages know no network",
		"os/exec": "pure packages start nothing",
	}
	for _, s := range repository(t) {
		if s.isTest() || s.dir != "pkg/schedule" {
			continue
		}
		for _, imp := range s.file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if reason, bad := banned[path]; bad || strings.HasPrefix(path, "net/") {
				t.Errorf("%s imports %s: %s", s.position(imp), path, reason)
			}
		}
	}
}

func TestOnlyConfigReadsTheEnvironment(t *testing.T) {
	for _, s := range repository(t) {
		if s.isTest() {
			continue
		}
		for _, imp := range s.file.Imports {
			if strings.HasPrefix(strings.Trim(imp.Path.Value, `"`), "github.com/caarlos0/env") && s.dir != "internal/config" {
				t.Errorf("%s: only internal/config turns the environment into values", s.position(imp))
			}
		}
	}
}

func exempted(dep string) bool {
	for pattern := range exempt {
		if matches(dep, pattern) {
			return true
		}
	}
	return false
}

func matches(path, pattern string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == tree || strings.HasPrefix(path, tree+"/")
	}
	return path == pattern
}

// listDeps returns every package of the module with all that it depends on,
// tests aside.
func listDeps(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
	cmd.Dir = rootDir(t)
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	out := map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fields := strings.Fields(line)
		out[fields[0]] = fields[1:]
	}
	return out
}
