package connect

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/config"
)

func TestNewBuildsEachKind(t *testing.T) {
	for url, want := range map[string]string{
		"redis://127.0.0.1:1":               "*redis.Client",
		"redis://127.0.0.1:1,127.0.0.1:2":   "*redis.ClusterClient",
		"redis-sentinel://127.0.0.1:1/m":    "*redis.Client",
		"rediss://127.0.0.1:1?cluster=true": "*redis.ClusterClient",
	} {
		c, err := config.LoadRedis(map[string]string{"BELFRY_REDIS_URL": url})
		if err != nil {
			t.Fatal(err)
		}
		client, err := New(c)
		if err != nil {
			t.Fatalf("New(%s): %v", url, err)
		}
		got := "*redis.Client"
		if cluster, ok := client.(*redis.ClusterClient); ok {
			got = "*redis.ClusterClient"
			if o := cluster.Options(); !o.ContextTimeoutEnabled || (o.TLSConfig != nil) != c.URL.TLS {
				t.Errorf("%s: options %+v", url, o)
			}
		} else if o := client.(*redis.Client).Options(); !o.ContextTimeoutEnabled {
			t.Errorf("%s: context timeouts are off", url)
		}
		if got != want {
			t.Errorf("New(%s) = %s, want %s", url, got, want)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
