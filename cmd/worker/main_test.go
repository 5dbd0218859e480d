package main

import (
	"strings"
	"testing"
	"time"
)

func TestRunOfTheCommandLine(t *testing.T) {
	tests := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"help", []string{"--help"}, 0, "Usage: worker", ""},
		{"version", []string{"--version"}, 0, "worker ", ""},
		{"no Redis", nil, 2, "", "no Redis given: set BELFRY_REDIS_URL"},
		{"unknown flag", []string{"--dmeo"}, 2, "", "flag provided but not defined: -dmeo"},
		{"argument", []string{"start"}, 2, "", `argument "start": allowed: flags only`},
		{"health of nobody", []string{"--health", "http://127.0.0.1:1/readyz"}, 1, "", "connection refused"},
		{"health of no URL", []string{"--health", "::"}, 2, "", "--health"},
		{"health of a host", []string{"--health", "localhost:8080/readyz"}, 2, "", `--health "localhost:8080/readyz": allowed: a URL`},
		{"health of an unset variable", []string{"--health", ""}, 2, "", `--health "": allowed: a URL`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("BELFRY_REDIS_URL", "")
			var stdout, stderr strings.Builder
			if code := run(tt.args, &stdout, &stderr); code != tt.code {
				t.Errorf("run(%q) = %d, want %d", tt.args, code, tt.code)
			}
			if !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("run(%q) printed %q and %q, want %q and %q", tt.args, stdout.String(), stderr.String(), tt.stdout, tt.stderr)
			}
			if strings.Contains(stderr.String(), "goroutine") {
				t.Errorf("run(%q) printed a stack trace", tt.args)
			}
		})
	}
}

func TestTimeZonesAreEmbedded(t *testing.T) {
	t.Setenv("ZONEINFO", "/does/not/exist")
	if _, err := time.LoadLocation("America/Nuuk"); err != nil {
		t.Errorf("LoadLocation(America/Nuuk) = %v, want the embedded data", err)
	}
}
