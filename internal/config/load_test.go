package config

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/CONFIGURATION.md")

const canary = "canary-7Qx"

func TestLoadDefaults(t *testing.T) {
	w, err := Load(map[string]string{})
	if err != nil {
		t.Fatalf("Load of an empty environment: %v", err)
	}
	if w.Redis.Namespace != "default" || w.Schedule.ClaimTTL != 10*time.Second || w.Run.Lease != 30*time.Second ||
		w.Schedule.Batch != 100 || w.Run.Drain != 25*time.Second || w.Process.HTTPAddr != "127.0.0.1:0" {
		t.Errorf("defaults differ from the stated ones: %+v", w)
	}
	if !w.Redis.URL.IsZero() || len(w.Warnings) > 0 {
		t.Errorf("URL %v, warnings %q; want none", w.Redis.URL, w.Warnings)
	}
}

func TestLoadReadsTheProcessEnvironment(t *testing.T) {
	t.Setenv("BELFRY_NAMESPACE", "from-process")
	w, err := Load(nil)
	if err != nil || w.Redis.Namespace != "from-process" {
		t.Errorf("Load(nil) = %q, %v; want from-process", w.Redis.Namespace, err)
	}
}

func TestLoadValues(t *testing.T) {
	w, err := Load(map[string]string{
		"BELFRY_REDIS_URL": "redis://u:p@db:6380/2", "BELFRY_QUEUES": "default=3, low=1,bulk", "BELFRY_LOG_LEVEL": "debug",
		"BELFRY_EXEC_ALLOW": "/bin/true,/bin/date", "BELFRY_SCHEDULE": "false",
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Queues{"default": 3, "low": 1, "bulk": 1}, w.Run.Queues); diff != "" {
		t.Error(diff)
	}
	if w.Process.LogLevel != slog.LevelDebug || w.Schedule.Enabled || len(w.Handlers.ExecAllow) != 2 || w.Redis.URL.Addrs[0] != "db:6380" {
		t.Errorf("got %+v", w)
	}
}

func TestLoadNamesEveryProblem(t *testing.T) {
	_, err := Load(map[string]string{
		"BELFRY_CONCURRENCY": "many", "BELFRY_CLAIM_TTL": "soon", "BELFRY_QUEUES": "a b=1", "BELFRY_LOG_LEVEL": "loud",
		"BELFRY_REDIS_URL": "http://u:" + canary + "@h",
	})
	text := fmt.Sprint(err)
	for _, want := range []string{
		`BELFRY_CONCURRENCY "many": allowed: a whole number from 1 to 10000`,
		`BELFRY_CLAIM_TTL "soon": allowed: a duration from 2s to 10m`,
		`BELFRY_QUEUES "a b=1"`, `BELFRY_LOG_LEVEL "loud"`, `BELFRY_REDIS_URL "[redacted]"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("error lacks %q:\n%s", want, text)
		}
	}
	if lines := strings.Count(text, "\n") + 1; lines != 5 {
		t.Errorf("%d lines, want one for each of 5 problems:\n%s", lines, text)
	}
	var field *schedule.FieldError
	if !errors.As(err, &field) {
		t.Errorf("%T holds no *schedule.FieldError", err)
	}
}

func TestLoadRefusesBoundsAndRelations(t *testing.T) {
	tests := []struct{ name, variable, value, want string }{
		{"below the lowest", "BELFRY_CLAIM_TTL", "1s", "from 2s to 10m"},
		{"above the highest", "BELFRY_CLAIM_BATCH", "501", "from 1 to 500"},
		{"audit before the claim ends", "BELFRY_AUDIT_AFTER", "9s", "at least BELFRY_CLAIM_TTL, which is 10s"},
		{"namespace with a brace", "BELFRY_NAMESPACE", "a{b}", "1 to 32"},
		{"address without a port", "BELFRY_HTTP_ADDR", "localhost", "host:port, or off"},
		{"address with a port too high", "BELFRY_HTTP_ADDR", ":70000", "host:port, or off"},
		{"certificate without a key", "BELFRY_REDIS_CERT_FILE", "c.pem", "together"},
		{"unknown log format", "BELFRY_LOG_FORMAT", "xml", "auto, text or json"},
		{"weight zero", "BELFRY_QUEUES", "a=0", "1 to 100"},
		{"queue twice", "BELFRY_QUEUES", "a=1,a=2", "twice"},
		{"secret file that is not there", "BELFRY_REDIS_URL_FILE", "/does/not/exist", "(no such file or directory)"},
		{"a directory as secret file", "BELFRY_REDIS_URL_FILE", "/", "(is a directory)"},
		{"an empty secret file", "BELFRY_REDIS_URL_FILE", "/dev/null", "(it is empty)"},
		{"a secret file without end", "BELFRY_REDIS_URL_FILE", "/dev/zero", "a readable file of 1 byte to 64 KiB (it is longer)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(map[string]string{tt.variable: tt.value})
			if err == nil || !strings.Contains(err.Error(), tt.variable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load(%s=%s) = %v, want an error with %q", tt.variable, tt.value, err, tt.want)
			}
		})
	}
}

func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("redis://:"+canary+"@db:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Load(map[string]string{"BELFRY_REDIS_URL_FILE": path})
	if err != nil || w.Redis.URL.Password.Reveal() != canary {
		t.Fatalf("password %q, %v; want the canary", w.Redis.URL.Password.Reveal(), err)
	}
	_, err = Load(map[string]string{"BELFRY_REDIS_URL_FILE": path, "BELFRY_REDIS_URL": "redis://x"})
	if err == nil || !strings.Contains(err.Error(), "not both") {
		t.Errorf("both set: %v, want a refusal", err)
	}
}

// TestNoOutputHoldsAPassword prints a configuration and every refusal of a
// URL in all the ways that a log or a dump would.
func TestNoOutputHoldsAPassword(t *testing.T) {
	good, err := Load(map[string]string{"BELFRY_REDIS_URL": "redis-sentinel://" + canary + "u:" + canary +
		"@h/m/1?sentinel_password=" + canary})
	if err != nil {
		t.Fatal(err)
	}
	good.Redis.URL.Username = ""
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		fmt.Fprintf(&out, verb+"\n", good)
		fmt.Fprintf(&out, verb+"\n", &good.Redis)
		fmt.Fprintf(&out, verb+"\n", good.Redis.URL.Password)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "config", good, "url", good.Redis.URL, "secret", good.Redis.URL.Password)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "config", good, "url", good.Redis.URL, "secret", good.Redis.URL.Password)
	encoded, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(encoded)
	for _, bad := range badURLs {
		_, err := Load(map[string]string{"BELFRY_REDIS_URL": bad})
		fmt.Fprintf(&out, "%v %+v %#v\n", err, err, err)
	}
	hex := fmt.Sprintf("%x", canary)
	if strings.Contains(out.String(), canary) || strings.Contains(out.String(), hex) {
		t.Errorf("the password leaks:\n%s", out.String())
	}
}

func TestUnknownVariables(t *testing.T) {
	w, err := Load(map[string]string{"BELFRY_QUEUE": "x", "BELFRY_TEST_REDIS": "1", "BELFRY_SOMETHING_ELSE_ALTOGETHER": "x", "BELFRY_NOPE": "x", "BELFRY_LOG_LVL": "x", "PATH": "/"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"BELFRY_LOG_LVL is not a setting and does nothing; did you mean BELFRY_LOG_LEVEL?",
		"BELFRY_NOPE is not a setting and does nothing",
		"BELFRY_QUEUE is not a setting and does nothing; did you mean BELFRY_QUEUES?",
		"BELFRY_SOMETHING_ELSE_ALTOGETHER is not a setting and does nothing",
	}
	if diff := cmp.Diff(want, w.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestFieldsAreWellFormed(t *testing.T) {
	names := map[string]bool{}
	for _, f := range fieldsOf(reflect.TypeFor[Worker]()) {
		if names[f.name] {
			t.Errorf("two settings have the Go name %s; explain needs unique ones", f.name)
		}
		names[f.name] = true
		if f.help == "" || f.allowed == "" || !strings.HasPrefix(f.variable, prefix) {
			t.Errorf("%s lacks a help text, an allowed text or a BELFRY_ variable: %+v", f.name, f)
		}
		if f.min != "" && bound(f.min, f.kind) >= bound(f.max, f.kind) {
			t.Errorf("%s: min %s is not below max %s", f.variable, f.min, f.max)
		}
	}
}

func TestDocumentIsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "CONFIGURATION.md")
	if *update {
		if err := os.WriteFile(path, []byte(Document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(stored), Document()); diff != "" {
		t.Errorf("docs/CONFIGURATION.md differs from the code; run go test ./internal/config -update:\n%s", diff)
	}
}

func TestAnUnreadableSettingHidesNoOther(t *testing.T) {
	_, err := Load(map[string]string{"BELFRY_DRAIN": "x", "BELFRY_SHARDS": "300", "BELFRY_CLAIM_TTL": "1ms"})
	for _, variable := range []string{"BELFRY_DRAIN", "BELFRY_SHARDS", "BELFRY_CLAIM_TTL"} {
		if err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("Load() = %v, want a line about %s", err, variable)
		}
	}
}
