package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// NewRedis builds the client of a configured Redis. It connects on first use;
// the caller closes it. It returns a *schedule.FieldError for certificate
// files that cannot be used.
func NewRedis(c config.Redis) (redis.UniversalClient, error) {
	tlsConfig, err := newTLS(c)
	if err != nil {
		return nil, err
	}
	// A server of one's own sends no maintenance notifications, and asking for
	// them costs an error on every connection and two goroutines a client.
	silent := func() *maintnotifications.Config {
		return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	u := c.URL
	var client redis.UniversalClient
	switch u.Mode {
	case config.ModeCluster:
		client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: u.Addrs, Username: u.Username, Password: u.Password.Reveal(),
			TLSConfig: tlsConfig, PoolSize: c.PoolSize, ContextTimeoutEnabled: true, MaintNotificationsConfig: silent()})
	case config.ModeSentinel:
		client = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: u.Master, SentinelAddrs: u.Addrs,
			SentinelUsername: u.SentinelUsername, SentinelPassword: u.SentinelPassword.Reveal(), Username: u.Username,
			Password: u.Password.Reveal(), DB: u.DB, TLSConfig: tlsConfig, PoolSize: c.PoolSize, ContextTimeoutEnabled: true})
	default:
		client = redis.NewClient(&redis.Options{Addr: u.Addrs[0], Username: u.Username, Password: u.Password.Reveal(), DB: u.DB,
			TLSConfig: tlsConfig, PoolSize: c.PoolSize, ContextTimeoutEnabled: true, MaintNotificationsConfig: silent()})
	}
	return client, nil
}

// newTLS returns nil for a connection without TLS.
func newTLS(c config.Redis) (*tls.Config, error) {
	if !c.URL.TLS {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		out.RootCAs = x509.NewCertPool()
		if err != nil || !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &schedule.FieldError{Field: "BELFRY_REDIS_CA_FILE", Value: c.CAFile, Allowed: "a readable file of PEM certificates"}
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, &schedule.FieldError{Field: "BELFRY_REDIS_CERT_FILE", Value: c.CertFile,
				Allowed: "a readable PEM certificate that fits the key in BELFRY_REDIS_KEY_FILE"}
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// OpenStore connects to a namespace for programs that run no tasks, such as
// the CLI. Close the client when done. It returns an error when the store does
// not answer within ctx.
func OpenStore(ctx context.Context, c config.Redis) (*redisstore.Store, redis.UniversalClient, error) {
	client, err := NewRedis(c)
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(client, redisstore.Options{Namespace: c.Namespace, Shards: c.Shards})
	if err == nil {
		err = client.Ping(ctx).Err()
	}
	if err != nil {
		_ = client.Close() // the error below says more
		return nil, nil, fmt.Errorf("app: connect to %s: %w", c.URL, err)
	}
	return store, client, nil
}
