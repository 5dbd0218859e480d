package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Mode says how a Redis is reached.
type Mode string

// The modes.
const (
	ModeStandalone Mode = "standalone"
	ModeSentinel   Mode = "sentinel"
	ModeCluster    Mode = "cluster"
)

// A RedisURL says where a Redis is and how to log in. The zero RedisURL is
// unset. Printing it shows no password.
type RedisURL struct {
	Mode     Mode
	TLS      bool
	Addrs    []string // host:port; several are the Sentinels or seeds of a Cluster
	Master   string   // of Sentinel
	DB       int
	Username string
	Password Secret

	SentinelUsername string
	SentinelPassword Secret
}

// errURL texts hold nothing of the URL, since it may hold a password.
var (
	errScheme = errors.New("the scheme must be redis, rediss, redis-sentinel or rediss-sentinel")
	errEscape = errors.New("user or password holds a bad %-escape; write '%' as %25")
)

const (
	defaultRedisPort    = "6379"
	defaultSentinelPort = "26379"
	maxDB               = 1_000_000
)

// ParseRedisURL reads one of the forms
//
//	redis://[user:password@]host[:port][/db]
//	redis://[user:password@]host:port,host:port           a Cluster
//	redis-sentinel://[user:password@]host[:port],.../master[/db][?sentinel_username=&sentinel_password=]
//
// rediss and rediss-sentinel are the same over TLS. A Cluster with one known
// node is ?cluster=true. Errors hold no part of user, password or query.
func ParseRedisURL(text string) (RedisURL, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return RedisURL{}, errScheme
	}
	var u RedisURL
	switch scheme {
	case "redis", "rediss":
		u.Mode = ModeStandalone
	case "redis-sentinel", "rediss-sentinel":
		u.Mode = ModeSentinel
	default:
		return RedisURL{}, errScheme
	}
	u.TLS = strings.HasPrefix(scheme, "rediss")
	if strings.Contains(rest, "#") {
		return RedisURL{}, errors.New("a URL has no '#' part; write '#' in a password as %23")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return RedisURL{}, errors.New("write '?' in a password as %3F and '@' in a parameter as %40")
	}
	if err := u.setLogin(&rest); err != nil {
		return RedisURL{}, err
	}
	hosts, path, _ := strings.Cut(rest, "/")
	return u, errors.Join(u.setQuery(query), u.setHosts(hosts), u.setPath(path))
}

// setLogin takes "user:password@" off the front of rest. The last '@' ends it,
// so an unescaped one in a password does no harm.
func (u *RedisURL) setLogin(rest *string) error {
	at := strings.LastIndex(*rest, "@")
	if at < 0 {
		return nil
	}
	user, password, _ := strings.Cut((*rest)[:at], ":")
	*rest = (*rest)[at+1:]
	var err1, err2 error
	u.Username, err1 = url.PathUnescape(user)
	u.Password.text, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errEscape
	}
	return nil
}

func (u *RedisURL) setHosts(hosts string) error {
	port := defaultRedisPort
	if u.Mode == ModeSentinel {
		port = defaultSentinelPort
	}
	for i, host := range strings.Split(hosts, ",") {
		addr, err := withPort(host, port)
		if err != nil {
			return fmt.Errorf("host %d: %w", i+1, err)
		}
		u.Addrs = append(u.Addrs, addr)
	}
	if u.Mode == ModeStandalone && len(u.Addrs) > 1 {
		u.Mode = ModeCluster
	}
	return nil
}

// Texts of withPort repeat nothing: where a login lost its '@', the password
// stands in the place of the port.
var (
	errHost = errors.New("it must be host:port, where host is a name or an address")
	errPort = errors.New("the port must be a number from 1 to 65535")
)

// withPort checks host[:port] and adds the default port.
func withPort(host, port string) (string, error) {
	name := host
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, p
	} else {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
		if strings.Contains(name, ":") && net.ParseIP(name) == nil {
			return "", errHost
		}
	}
	if name == "" || strings.ContainsAny(name, " \t\r\n%/[]") {
		return "", errHost
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", errPort
	}
	return net.JoinHostPort(name, port), nil
}

func (u *RedisURL) setPath(path string) error {
	if u.Mode == ModeSentinel {
		u.Master, path, _ = strings.Cut(path, "/")
		if u.Master == "" {
			return errors.New("the name of the Sentinel master is missing: redis-sentinel://host:port/master")
		}
	}
	if path == "" {
		return nil
	}
	db, err := strconv.Atoi(path)
	if err != nil || db < 0 || db > maxDB {
		return errors.New("the database after the '/' must be a number from 0")
	}
	if db != 0 && u.Mode == ModeCluster {
		return errors.New("a Cluster has database 0 only")
	}
	u.DB = db
	return nil
}

func (u *RedisURL) setQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the part after '?' is not name=value")
	}
	for name, list := range values {
		value := list[len(list)-1]
		switch {
		case name == "sentinel_username" && u.Mode == ModeSentinel:
			u.SentinelUsername = value
		case name == "sentinel_password" && u.Mode == ModeSentinel:
			u.SentinelPassword = NewSecret(value)
		case name == "cluster" && u.Mode != ModeSentinel && (value == "true" || value == "false"):
			if value == "true" {
				u.Mode = ModeCluster
			}
		default:
			return errors.New("parameters: allowed: cluster=true, and with Sentinel sentinel_username and sentinel_password")
		}
	}
	return nil
}

// IsZero reports whether no URL was given.
func (u RedisURL) IsZero() bool { return len(u.Addrs) == 0 }

// UnmarshalText is ParseRedisURL, without surrounding space.
func (u *RedisURL) UnmarshalText(text []byte) error {
	parsed, err := ParseRedisURL(strings.TrimSpace(string(text)))
	if err == nil {
		*u = parsed
	}
	return err
}

// String returns the URL without user, password and parameters.
func (u RedisURL) String() string {
	if u.IsZero() {
		return ""
	}
	scheme := "redis"
	if u.TLS {
		scheme = "rediss"
	}
	path := ""
	if u.Mode == ModeSentinel {
		scheme, path = scheme+"-sentinel", "/"+u.Master
	}
	if u.DB != 0 {
		path += "/" + strconv.Itoa(u.DB)
	}
	return scheme + "://" + strings.Join(u.Addrs, ",") + path
}
