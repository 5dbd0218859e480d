package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRedisURL(t *testing.T) {
	tests := []struct {
		name, url string
		want      RedisURL
	}{
		{"host alone", "redis://db", RedisURL{Mode: ModeStandalone, Addrs: []string{"db:6379"}}},
		{"everything", "rediss://u:p%40ss@db:1/3", RedisURL{Mode: ModeStandalone, TLS: true, Addrs: []string{"db:1"}, DB: 3, Username: "u", Password: NewSecret("p@ss")}},
		{"password alone", "redis://:pw@127.0.0.1:7000/0", RedisURL{Mode: ModeStandalone, Addrs: []string{"127.0.0.1:7000"}, Password: NewSecret("pw")}},
		{"unescaped @ in the password", "redis://u:p@ss@db", RedisURL{Mode: ModeStandalone, Addrs: []string{"db:6379"}, Username: "u", Password: NewSecret("p@ss")}},
		{"IPv6", "redis://[::1]:7000", RedisURL{Mode: ModeStandalone, Addrs: []string{"[::1]:7000"}}},
		{"IPv6 without a port", "redis://[::1]", RedisURL{Mode: ModeStandalone, Addrs: []string{"[::1]:6379"}}},
		{"several hosts are a Cluster", "redis://a:1,b:2,c", RedisURL{Mode: ModeCluster, Addrs: []string{"a:1", "b:2", "c:6379"}}},
		{"one node of a Cluster", "redis://a?cluster=true", RedisURL{Mode: ModeCluster, Addrs: []string{"a:6379"}}},
		{"Sentinel", "redis-sentinel://u:p@a,b:2/main/4?sentinel_username=su&sentinel_password=sp", RedisURL{Mode: ModeSentinel,
			Addrs: []string{"a:26379", "b:2"}, Master: "main", DB: 4, Username: "u", Password: NewSecret("p"), SentinelUsername: "su", SentinelPassword: NewSecret("sp")}},
		{"Sentinel over TLS", "rediss-sentinel://a/main", RedisURL{Mode: ModeSentinel, TLS: true, Addrs: []string{"a:26379"}, Master: "main"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseRedisURL(tt.url)
			if err != nil {
				t.Fatalf("ParseRedisURL(%q): %v", tt.url, err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Secret{})); diff != "" {
				t.Errorf("ParseRedisURL(%q) differs:\n%s", tt.url, diff)
			}
		})
	}
}

// badURLs are refused; each holds the canary where a password may stand.
var badURLs = []string{
	"", canary, "http://u:" + canary + "@h", "redis://u:" + canary + "@", "redis://u:" + canary + "@h:0", "redis://u:" + canary + "@h:port",
	"redis://u:" + canary + "@h:70000", "redis://u:" + canary + "@h/db", "redis://u:" + canary + "@h/-1", "redis://u:" + canary + "%zz@h",
	"redis://u:" + canary + "@a,b/1", "redis://u:" + canary + "@a,,b", "redis-sentinel://u:" + canary + "@a", "redis-sentinel://u:" + canary + "@a/",
	"redis://u:" + canary + "@h?skip_verify=true", "redis://u:" + canary + "@h?cluster=maybe", "redis://u:" + canary + "@h?sentinel_password=" + canary,
	"redis-sentinel://h/m?sentinel_password=%zz" + canary, "redis://u:" + canary + "@h#x", "redis://u:" + canary + "@h h", "redis://u:" + canary + "@a:1:2",
	"redis://u:" + canary + "?x@h", "redis://u:" + canary, "redis://h/" + canary, "redis://u:" + canary + "/x@h/y", "redis://h?" + canary + "=1",
}

func TestParseRedisURLRefuses(t *testing.T) {
	for _, bad := range badURLs {
		got, err := ParseRedisURL(bad)
		if err == nil {
			t.Errorf("ParseRedisURL(%q) = %v, want an error", bad, got)
			continue
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("ParseRedisURL(%q): the error holds the password: %v", bad, err)
		}
	}
}

func TestRedisURLString(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"redis://u:p@a", "redis://a:6379"},
		{"rediss://u:p@a/3", "rediss://a:6379/3"},
		{"redis-sentinel://u:p@a,b/m/1?sentinel_password=x", "redis-sentinel://a:26379,b:26379/m/1"},
	} {
		u, err := ParseRedisURL(tt.url)
		if err != nil || u.String() != tt.want {
			t.Errorf("String of %s = %s, %v; want %s", tt.url, u, err, tt.want)
		}
	}
}

func FuzzParseRedisURL(f *testing.F) {
	for _, bad := range badURLs {
		f.Add(bad)
	}
	f.Add("redis-sentinel://u:p@a,b:2/main/4?sentinel_username=su")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseRedisURL(text)
		if err != nil {
			return
		}
		again, err := ParseRedisURL(u.String())
		if u.Mode == ModeCluster && len(u.Addrs) == 1 {
			return // String leaves the parameter out
		}
		if err != nil || again.String() != u.String() {
			t.Errorf("String of %q is %q, which reads as %q, %v", text, u, again, err)
		}
	})
}
