package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// errPolicyHidden reports that the server does not tell its eviction policy,
// such as one that allows neither CONFIG nor INFO.
var errPolicyHidden = errors.New("app: the server does not tell its eviction policy")

// checkEviction warns when Redis may drop keys to free memory: schedules and
// tasks would vanish without a trace. It waits until Redis answers.
func checkEviction(ctx context.Context, client redis.UniversalClient, logger *slog.Logger) {
	for client.Ping(ctx).Err() != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	policy, err := evictionPolicy(ctx, client)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		logger.Info("the eviction policy of Redis is not known; make sure that it is noeviction", "error", err)
	case policy != "noeviction":
		logger.Warn("Redis may drop schedules and tasks when its memory is full: set maxmemory-policy noeviction", "maxmemory_policy", policy)
	}
}

// evictionPolicy asks by CONFIG, then by INFO: either may be denied.
func evictionPolicy(ctx context.Context, client redis.UniversalClient) (string, error) {
	values, err := client.ConfigGet(ctx, "maxmemory-policy").Result()
	if err == nil && values["maxmemory-policy"] != "" {
		return values["maxmemory-policy"], nil
	}
	info, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return "", errors.Join(errPolicyHidden, err)
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
			return policy, nil
		}
	}
	return "", errPolicyHidden
}
