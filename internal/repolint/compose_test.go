package repolint

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/belfryhq/belfry/internal/config"
)

// A composeFile is the part of docker-compose.yml that promises something.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Image       string            `yaml:"image"`
	Build       string            `yaml:"build"`
	Command     []string          `yaml:"command"`
	Ports       []any             `yaml:"ports"`
	Volumes     []string          `yaml:"volumes"`
	Environment map[string]string `yaml:"environment"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
	StopGracePeriod string   `yaml:"stop_grace_period"`
	SecurityOpt     []string `yaml:"security_opt"`
	CapDrop         []string `yaml:"cap_drop"`
}

func compose(t *testing.T) composeFile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rootDir(t), "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatalf("docker-compose.yml: %v", err)
	}
	return file
}

func TestComposeRedisKeepsWhatItAcknowledged(t *testing.T) {
	redis, ok := compose(t).Services["redis"]
	if !ok {
		t.Fatal("no service named redis")
	}
	flags := strings.Join(redis.Command, " ")
	for _, want := range []string{"--appendonly yes", "--maxmemory-policy noeviction", "--maxmemory "} {
		if !strings.Contains(flags, want) {
			t.Errorf("redis runs %q, which lacks %q", flags, want)
		}
	}
	if len(redis.Ports) != 0 {
		t.Errorf("redis publishes %v: it must stay inside", redis.Ports)
	}
	if len(redis.Volumes) == 0 || len(redis.Healthcheck.Test) == 0 {
		t.Error("redis needs a volume and a health check")
	}
	if name, _, _ := strings.Cut(redis.Volumes[0], ":"); !hasKey(compose(t).Volumes, name) {
		t.Errorf("the volume %s is not declared", name)
	}
}

func TestComposeRunsTwoWorkersThatWaitForRedis(t *testing.T) {
	workers := 0
	for name, s := range compose(t).Services {
		if name == "redis" {
			continue
		}
		workers++
		if s.DependsOn["redis"].Condition != "service_healthy" {
			t.Errorf("%s does not wait for a healthy redis", name)
		}
		if !strings.HasPrefix(s.Environment["BELFRY_REDIS_URL"], "redis://redis:") {
			t.Errorf("%s has BELFRY_REDIS_URL %q", name, s.Environment["BELFRY_REDIS_URL"])
		}
		if len(s.Healthcheck.Test) == 0 || s.StopGracePeriod == "" {
			t.Errorf("%s needs a health check and a grace period longer than its drain", name)
		}
		if !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s must drop its privileges", name)
		}
	}
	if workers != 2 {
		t.Errorf("%d workers, want 2", workers)
	}
}

// What the workers of docker-compose.yml are told is what the programs
// understand: every variable is known and accepted, and the health check asks
// the program of the image at the port and path that it serves.
func TestComposeSpeaksTheLanguageOfThePrograms(t *testing.T) {
	dockerfile, program, health := readDoc(t, "Dockerfile"), readDoc(t, "cmd/worker/main.go"), readDoc(t, "internal/app/health.go")
	entry := regexp.MustCompile(`ENTRYPOINT \["([^"]+)"\]`).FindStringSubmatch(dockerfile)
	if entry == nil {
		t.Fatal("the Dockerfile has no ENTRYPOINT")
	}
	for name, s := range compose(t).Services {
		if name == "redis" {
			continue
		}
		settings, err := config.Load(s.Environment)
		if err != nil || len(settings.Warnings) > 0 {
			t.Errorf("%s: the environment is refused or unknown: %v %v", name, err, settings.Warnings)
		}
		grace, err := time.ParseDuration(s.StopGracePeriod)
		if err != nil || grace < settings.Run.Drain+5*time.Second {
			t.Errorf("%s: a grace period of %s for a drain of %s, %v", name, s.StopGracePeriod, settings.Run.Drain, err)
		}
		test := s.Healthcheck.Test
		if len(test) != 4 || test[0] != "CMD" || test[1] != entry[1] || !strings.Contains(program, "flags.String(\""+strings.TrimLeft(test[2], "-")+"\"") {
			t.Fatalf("%s: the health check %q is not CMD %s --health URL", name, test, entry[1])
		}
		asked, err := url.Parse(test[3])
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(settings.Process.HTTPAddr)
		if err != nil || asked.Port() != port || !strings.Contains(health, `"`+asked.Path+`"`) && !strings.Contains(health, `"GET `+asked.Path+`"`) {
			t.Errorf("%s: the health check asks %s; the worker serves %s, %v", name, asked, settings.Process.HTTPAddr, err)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ENV (\w+)=(\S+)$`).FindAllStringSubmatch(dockerfile, -1) {
		if settings, err := config.Load(map[string]string{m[1]: m[2]}); err != nil || len(settings.Warnings) > 0 {
			t.Errorf("Dockerfile: %s=%s: %v %v", m[1], m[2], err, settings.Warnings)
		}
	}
}

func TestDockerfileEndsWithoutRoot(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(rootDir(t), "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CGO_ENABLED=0", "FROM scratch", "USER 65532:65532"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("Dockerfile lacks %q: the binary is static and not root", want)
		}
	}
}

func hasKey(m map[string]any, key string) bool {
	_, ok := m[key]
	return ok
}
