package handler

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// A hostList decides which hosts may be called.
type hostList struct {
	all      bool
	exact    map[string]bool // "host" or "host:port"
	suffixes []string        // ".example.com" of "*.example.com"
}

// newHostList reads entries such as "example.com", "example.com:8443",
// "*.example.com" and "[::1]:8080".
func newHostList(entries []string, all bool) (*hostList, error) {
	list := &hostList{all: all, exact: make(map[string]bool)}
	var errs []error
	for _, entry := range entries {
		name := canonicalHost(entry)
		suffix, wild := strings.CutPrefix(name, "*")
		switch {
		case wild && strings.HasPrefix(suffix, ".") && len(suffix) > 1 && !strings.ContainsAny(suffix, "*/:@ "):
			list.suffixes = append(list.suffixes, suffix)
		case name == "" || strings.ContainsAny(name, "*/@ \t\r\n"):
			errs = append(errs, &schedule.FieldError{Field: "allowed_hosts", Value: entry,
				Allowed: "a host, host:port or *.domain, without a scheme or path"})
		default:
			list.exact[name] = true
		}
	}
	return list, errors.Join(errs...)
}

// canonicalHost makes equal hosts equal: lower case, no dot at the end, no
// brackets around an address without a port.
func canonicalHost(host string) string {
	host = strings.ToLower(strings.TrimSpace(host))
	if name, port, err := net.SplitHostPort(host); err == nil {
		return net.JoinHostPort(strings.TrimSuffix(name, "."), port)
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.TrimSuffix(host, ".")
}

// allows reports whether the URL may be called. An entry without a port allows
// the scheme's own port only.
func (l *hostList) allows(u *url.URL) bool {
	if l.all {
		return true
	}
	name, port := canonicalHost(u.Hostname()), u.Port()
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if port == "" {
		port = usual
	}
	if l.exact[net.JoinHostPort(name, port)] {
		return true
	}
	if port != usual {
		return false
	}
	if l.exact[name] {
		return true
	}
	for _, suffix := range l.suffixes {
		if strings.HasSuffix(name, suffix) && len(name) > len(suffix) && net.ParseIP(name) == nil {
			return true
		}
	}
	return false
}

// checkURL refuses what is no plain HTTP address of an allowed host. Its errors
// never repeat user information, path or query.
func (l *hostList) checkURL(field string, u *url.URL) error {
	shown := u.Scheme + "://" + u.Host
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return &schedule.FieldError{Field: field, Value: u.Scheme, Allowed: "an http or https URL"}
	case u.User != nil:
		return &schedule.FieldError{Field: field, Value: shown, Allowed: "no user or password in the URL; use headers"}
	case u.Hostname() == "" || u.Opaque != "":
		return &schedule.FieldError{Field: field, Value: shown, Allowed: "a URL with a host"}
	case !l.allows(u):
		return &schedule.FieldError{Field: field, Value: shown, Allowed: "a host that this worker allows", Hint: "add it to the worker's allowed hosts"}
	}
	return nil
}
