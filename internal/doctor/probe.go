package doctor

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// settings are what CONFIG GET is asked for.
var settings = []string{"maxmemory-policy", "maxmemory", "appendonly", "appendfsync", "save"}

// Probe asks every master of a deployment. What a server denies is kept as an
// error of its node; the error returned means that nothing answered.
func Probe(ctx context.Context, client redis.UniversalClient, now func() time.Time) ([]Node, error) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		var mu sync.Mutex
		var all []Node
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			n, err := probe(ctx, master, master.Options().Addr, now)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, n)
			return err
		})
		return all, err
	}
	address := ""
	if single, ok := client.(*redis.Client); ok {
		address = single.Options().Addr
	}
	n, err := probe(ctx, client, address, now)
	return []Node{n}, err
}

func probe(ctx context.Context, client redis.Cmdable, address string, now func() time.Time) (Node, error) {
	n := Node{Address: address}
	if err := client.Ping(ctx).Err(); err != nil {
		return n, err
	}
	n.Info, n.InfoErr = info(ctx, client)
	// The server that a demo embeds knows few sections and says so.
	n.Embedded = n.InfoErr != nil && strings.Contains(n.InfoErr.Error(), "is not supported")
	for _, name := range settings {
		values, err := client.ConfigGet(ctx, name).Result()
		if err != nil {
			n.ConfigErr = err
			break
		}
		if n.Config == nil {
			n.Config = map[string]string{}
		}
		if value, ok := values[name]; ok {
			n.Config[name] = value
		}
	}
	sent := now()
	at, err := client.Time(ctx).Result()
	middle := sent.Add(now().Sub(sent) / 2)
	n.Ahead, n.ClockErr = at.Sub(middle), err
	return n, nil
}

// info merges the sections that are judged.
func info(ctx context.Context, client redis.Cmdable) (map[string]string, error) {
	all := map[string]string{}
	for _, section := range []string{"server", "memory", "persistence", "replication"} {
		text, err := client.Info(ctx, section).Result()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				all[name] = value
			}
		}
	}
	return all, nil
}

// SetNoEviction sets the eviction policy of every master.
func SetNoEviction(ctx context.Context, client redis.UniversalClient) error {
	set := func(ctx context.Context, one redis.Cmdable) error {
		return one.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err()
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return set(ctx, master) })
	}
	return set(ctx, client)
}
