package admincli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file of contexts is its owner's only, and one that others can read is
// told.
func TestContextsAreTheirOwnersOnly(t *testing.T) {
	r := newRig(t)
	r.must("context", "save", "prod")
	path := filepath.Join(r.config, contextFile)
	stat, err := os.Stat(path)
	if err != nil || stat.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", stat.Mode(), err)
	}
	if files, err := os.ReadDir(r.config); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := r.must("context", "list").stderr; !strings.Contains(got, "chmod 600") {
		t.Errorf("no warning: %q", got)
	}
}

// A context is what the commands connect with, and no password of one is ever
// shown.
func TestACommandUsesTheContext(t *testing.T) {
	r, server := onRedis(t)
	r.config = t.TempDir()
	url := "redis://:canary-7f3c@" + server.Addr()
	text := "current: prod\ncontexts:\n  prod: {BELFRY_REDIS_URL: '" + url + "', BELFRY_NAMESPACE: mine}\n"
	if err := os.WriteFile(filepath.Join(r.config, contextFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	clear(r.environ)
	for _, line := range []string{"stats", "context list -o yaml", "config --sources -o json", "context validate", "schedule list"} {
		got := r.run(strings.Fields(line)...) // the server wants no password and refuses one
		if strings.Contains(got.stdout+got.stderr, "canary") {
			t.Errorf("%s shows the password: %s%s", line, got.stdout, got.stderr)
		}
		if strings.Contains(line, "context list") && !strings.Contains(got.stdout, server.Addr()) {
			t.Errorf("%s: %s%s", line, got.stdout, got.stderr)
		}
	}
	text = strings.Replace(text, ":canary-7f3c@", "", 1)
	if err := os.WriteFile(filepath.Join(r.config, contextFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.must("context", "validate").stdout; !strings.Contains(got, "prod reaches") {
		t.Errorf("validate: %q", got)
	}
}

// No file that cannot be used as contexts is taken for one, and none of what is
// said of it repeats a password.
func TestBadContextFiles(t *testing.T) {
	for name, text := range map[string]string{
		"unknown name":     "context: {}",
		"foreign variable": "contexts: {a: {PATH: /canary}}",
		"bad URL":          "contexts: {a: {BELFRY_REDIS_URL: 'http://:canary@x'}}",
		"bad name":         "contexts: {'a b': {BELFRY_REDIS_URL: 'redis://x'}}",
		"no such current":  "current: x\ncontexts: {}",
		"not YAML":         "contexts: {a: {BELFRY_REDIS_URL: redis://:canary@x}",
		"too large":        strings.Repeat("# canary\n", 200_000),
	} {
		r := newRig(t)
		if err := os.WriteFile(filepath.Join(r.config, contextFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := r.run("context", "list")
		if got.code != exitUsage || strings.Contains(got.stdout+got.stderr, "canary") || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
