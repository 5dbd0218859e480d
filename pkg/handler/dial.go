package handler

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/belfryhq/belfry/pkg/schedule"
)

const (
	dialTime       = 30 * time.Second
	maxHeadersRead = 256 << 10 // bytes of the headers of a response
)

// A dialer connects to where a name of the list leads, after it was resolved:
// who answers for the name must not choose this host or the metadata service of
// a cloud.
type dialer struct {
	net.Dialer
	all     bool                                  // any host
	proxy   func(*http.Request) (*url.URL, error) // of the environment
	proxies sync.Map                              // their addresses, which the operator chose
}

// newTransport returns the transport of a list of hosts.
func newTransport(hosts *hostList) (*http.Transport, *dialer) {
	d := &dialer{Dialer: net.Dialer{Timeout: dialTime, KeepAlive: dialTime}, all: hosts.all, proxy: http.ProxyFromEnvironment}
	return &http.Transport{Proxy: d.viaProxy, DialContext: d.dial, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeadersRead,
		MaxIdleConns: 100, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second}, d
}

// viaProxy notes the proxy that a request goes through.
func (d *dialer) viaProxy(request *http.Request) (*url.URL, error) {
	proxy, err := d.proxy(request)
	if proxy != nil {
		d.proxies.Store(proxy.Hostname(), nil)
	}
	return proxy, err
}

// dial connects to an address. An address that stands in the URL itself is in
// the list, or it would have been refused before.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	own := d.Dialer
	_, proxy := d.proxies.Load(host)
	if _, err := netip.ParseAddr(host); err != nil && !d.all && !proxy {
		own.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			return checkResolved(host, resolved)
		}
	}
	return own.DialContext(ctx, network, address)
}

// translated is the prefix by which a network with IPv6 alone reaches IPv4.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// metadata is the one address of a cloud's metadata that is not link-local.
var metadata = netip.MustParseAddr("fd00:ec2::254")

// checkResolved refuses an address that a name must not lead to.
func checkResolved(host, resolved string) error {
	port, err := netip.ParseAddrPort(resolved)
	addr := port.Addr().Unmap().WithZone("")
	if translated.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	local := addr.IsLoopback() && canonicalHost(host) != "localhost"
	if err == nil && !local && !addr.IsUnspecified() && !addr.IsLinkLocalUnicast() && !addr.IsMulticast() && addr != metadata {
		return nil
	}
	return &schedule.FieldError{Field: "payload.url", Value: host + " at " + addr.String(), Allowed: "a name that leads neither to this host nor to a link-local address",
		Hint: "an address itself may be added to the worker's allowed hosts"}
}
