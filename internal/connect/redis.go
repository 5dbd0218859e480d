package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belfryhq/belfry/internal/config"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// New builds the client of a configured Redis. It connects on first use; the
// caller closes it. It returns a *schedule.FieldError for certificate files
// that cannot be used.
func New(c config.Redis) (redis.UniversalClient, error) {
	tlsConfig, err := newTLS(c)
	if err != nil {
		return nil, err
	}
	// A server of one's own sends no maintenance notifications, and asking for
	// them costs an error on every connection and two goroutines a client.
	silent := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	u := c.URL
	switch u.Mode {
	case config.ModeCluster:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: u.Addrs, Username: u.Username, Password: u.Password.Reveal(),
			TLSConfig: tlsConfig, PoolSize: c.PoolSize, ContextTimeoutEnabled: true, MaintNotificationsConfig: silent}), nil
	case config.ModeSentinel:
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: u.Master, SentinelAddrs: u.Addrs,
			SentinelUsername: u.SentinelUsername, SentinelPassword: u.SentinelPassword.Reveal(), Username: u.Username,
			Password: u.Password.Reveal(), DB: u.DB, TLSConfig: tlsConfig, PoolSize: c.PoolSize, ContextTimeoutEnabled: true}), nil
	}
	return redis.NewClient(&redis.Options{Addr: u.Addrs[0], Username: u.Username, Password: u.Password.Reveal(), DB: u.DB,
		TLSConfig: tlsConfig, PoolSize: c.PoolSize, ContextTimeoutEnabled: true, MaintNotificationsConfig: silent}), nil
}

// newTLS returns nil for a connection without TLS.
func newTLS(c config.Redis) (*tls.Config, error) {
	if !c.URL.TLS {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := config.ReadFile(c.CAFile)
		out.RootCAs = x509.NewCertPool()
		if err == nil && !out.RootCAs.AppendCertsFromPEM(pem) {
			err = errors.New("no certificate is in it")
		}
		if err != nil {
			return nil, &schedule.FieldError{Field: "BELFRY_REDIS_CA_FILE", Value: c.CAFile, Allowed: "a readable file of PEM certificates", Hint: err.Error()}
		}
	}
	if c.CertFile != "" {
		pair, err := keyPair(c)
		if err != nil {
			return nil, err
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// keyPair reads the client's certificate and its key.
func keyPair(c config.Redis) (tls.Certificate, error) {
	certificate, err := config.ReadFile(c.CertFile)
	if err != nil {
		return tls.Certificate{}, &schedule.FieldError{Field: "BELFRY_REDIS_CERT_FILE", Value: c.CertFile, Allowed: "a readable PEM certificate", Hint: err.Error()}
	}
	key, err := config.ReadFile(c.KeyFile)
	if err != nil {
		return tls.Certificate{}, &schedule.FieldError{Field: "BELFRY_REDIS_KEY_FILE", Value: c.KeyFile, Allowed: "a readable PEM key", Hint: err.Error()}
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, &schedule.FieldError{Field: "BELFRY_REDIS_CERT_FILE", Value: c.CertFile,
			Allowed: "a readable PEM certificate that fits the key in BELFRY_REDIS_KEY_FILE", Hint: strings.TrimPrefix(err.Error(), "tls: ")}
	}
	return pair, nil
}

// noDatabase begins the reply to a database number that the server has not.
const noDatabase = "DB index is out of range"

// Open connects to a namespace. Close the client when done. It returns a
// *schedule.FieldError for a database that the server does not have, and an
// error when the store does not answer within ctx.
func Open(ctx context.Context, c config.Redis) (*redisstore.Store, redis.UniversalClient, error) {
	client, err := New(c)
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(client, redisstore.Options{Namespace: c.Namespace, Shards: c.Shards})
	if err == nil {
		err = client.Ping(ctx).Err()
	}
	if err != nil {
		_ = client.Close() // the error below says more
		if redis.HasErrorPrefix(err, noDatabase) {
			return nil, nil, &schedule.FieldError{Field: "BELFRY_REDIS_URL", Value: c.URL.String(),
				Allowed: "a database that this server has: most have 0 to 15", Hint: err.Error()}
		}
		return nil, nil, fmt.Errorf("connect: reach %s: %w", c.URL, err)
	}
	return store, client, nil
}
