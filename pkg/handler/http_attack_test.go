package handler

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// nameServer answers every question for an address with addr, and returns a
// resolver that asks it.
func nameServer(t *testing.T, addr netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(answerTo(buffer[:n], addr), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answerTo returns the DNS answer with addr to a question of its kind, and an
// empty one to others.
func answerTo(query []byte, addr netip.Addr) []byte {
	end := 12 + bytes.IndexByte(query[12:], 0) + 5
	kind := byte(1) // A
	if addr.Is6() {
		kind = 28 // AAAA
	}
	answers := byte(0)
	if query[end-3] == kind {
		answers = 1
	}
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0}, query[12:end]...)
	if answers == 0 {
		return reply
	}
	raw := addr.AsSlice()
	return append(append(reply, 0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, byte(len(raw))), raw...)
}

// rebound returns a handler that may call rebind.example at the port of the
// server, and the server itself; the name leads to addr.
func rebound(t *testing.T, server *httptest.Server, addr string) (asynq.Handler, string) {
	t.Helper()
	port := portOf(t, server)
	h, err := NewHTTP(HTTPOptions{AllowedHosts: []string{"rebind.example:" + port, "127.0.0.1:" + port, "localhost:" + port}})
	if err != nil {
		t.Fatal(err)
	}
	h.(*httpHandler).dialer.Resolver = nameServer(t, netip.MustParseAddr(addr))
	return h, "http://rebind.example:" + port
}

func portOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Who answers for an allowed name chooses where it leads. Neither this host nor
// what is link-local is a choice, at once or by a redirect.
func TestHTTPNamesDoNotLeadHome(t *testing.T) {
	server, last := serverOf(t, ok)
	for _, addr := range []string{"127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "169.254.169.254",
		"::ffff:169.254.169.254", "fe80::1", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "fd00:ec2::254", "224.0.0.1", "ff02::1"} {
		h, name := rebound(t, server, addr)
		err := h.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": name + "/?token=canary", "timeout": "5s"}))
		refused(t, addr, err, "payload.url")
		first, _ := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, name+"/?token=canary", http.StatusFound)
		})
		both := h.(*httpHandler)
		both.hosts.exact[strings.TrimPrefix(first.URL, "http://")] = true
		redirected := h.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": first.URL, "timeout": "5s"}))
		refused(t, addr+" by a redirect", redirected, "payload.url")
		if strings.Contains(errors.Join(err, redirected).Error(), "canary") {
			t.Errorf("%s: the errors repeat a secret: %v, %v", addr, err, redirected)
		}
	}
	if last.Load() != nil {
		t.Errorf("a request arrived: %+v", last.Load())
	}
	for host, resolved := range map[string]string{"a.example": "10.1.2.3:80", "b.example": "[2001:db8::1]:80", "localhost": "127.0.0.1:80", "LOCALHOST.": "[::1]:80"} {
		if err := checkResolved(host, resolved); err != nil {
			t.Errorf("%s at %s: %v, want nil", host, resolved, err)
		}
	}
}

// What the operator names by its address or as localhost is meant, and so is
// everything with AllowAll.
func TestHTTPGoesWhereTheOperatorSays(t *testing.T) {
	server, last := serverOf(t, ok)
	h, _ := rebound(t, server, "127.0.0.1")
	all, err := NewHTTP(HTTPOptions{AllowAll: true})
	if err != nil {
		t.Fatal(err)
	}
	all.(*httpHandler).dialer.Resolver = nameServer(t, netip.MustParseAddr("127.0.0.1"))
	for _, tt := range []struct {
		handler asynq.Handler
		host    string
	}{{h, "127.0.0.1"}, {h, "localhost"}, {all, "rebind.example"}} {
		last.Store(nil)
		if err := tt.handler.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": "http://" + tt.host + ":" + portOf(t, server)})); err != nil || last.Load() == nil {
			t.Errorf("%s: %v, want the request to arrive", tt.host, err)
		}
	}
}

// A proxy of the environment may be on this host; it resolves the names.
func TestHTTPUsesTheProxyOfTheEnvironment(t *testing.T) {
	proxy, last := serverOf(t, ok)
	h, err := NewHTTP(HTTPOptions{AllowedHosts: []string{"rebind.example"}})
	if err != nil {
		t.Fatal(err)
	}
	where, err := url.Parse("http://localproxy.example:" + portOf(t, proxy))
	if err != nil {
		t.Fatal(err)
	}
	d := h.(*httpHandler).dialer
	d.proxy, d.Resolver = http.ProxyURL(where), nameServer(t, netip.MustParseAddr("127.0.0.1"))
	if err := h.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": "http://rebind.example/x"})); err != nil {
		t.Error(err)
	}
	if got := last.Load(); got == nil || got.path != "/x" {
		t.Errorf("the proxy got %+v, want the request", got)
	}
	refused(t, "another host", h.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": "http://other.example/x"})), "payload.url")
}

// Addresses that are written in other ways are not in the list.
func TestHTTPRefusesDisguisedAddresses(t *testing.T) {
	server, last := serverOf(t, ok)
	h := httpFor(t, HTTPOptions{AllowedHosts: []string{"example.com"}}, server)
	for _, host := range []string{"2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::1%25lo]", "localhost",
		"127。0。0。1", "①②⑦.0.0.1", "example.com%00.127.0.0.1", "127.0.0.1#@example.com", "example.com@127.0.0.1"} {
		refused(t, host, h.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": "http://" + host + ":" + portOf(t, server) + "/", "timeout": "5s"})), "")
	}
	if last.Load() != nil {
		t.Errorf("a request arrived: %+v", last.Load())
	}
}

// A server cannot hold a run beyond its time nor fill the memory.
func TestHTTPBoundsWhatAServerSends(t *testing.T) {
	megabyte := bytes.Repeat([]byte("x"), 1<<20)
	forEver := func(w io.Writer, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(megabyte); err != nil {
				return
			}
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string // in the error; "" is success
	}{
		{"a body without end", func(w http.ResponseWriter, r *http.Request) { forEver(w, r) }, ""},
		{"an error without end", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); forEver(w, r) }, "status 500: xxx"},
		{"a bomb", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			zipped := gzip.NewWriter(w)
			forEver(zipped, r)
		}, ""},
		{"headers without end", func(w http.ResponseWriter, _ *http.Request) {
			for range 8 {
				w.Header().Add("X-Fill", string(megabyte))
			}
		}, "server response headers exceeded"},
		{"a body that drips", func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, ".")
				w.(http.Flusher).Flush()
				<-tick.C
			}
		}, "context deadline exceeded"},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "context deadline exceeded"},
	}
	for _, tt := range tests {
		server, _ := serverOf(t, tt.answer)
		start := time.Now()
		err := httpFor(t, HTTPOptions{}, server).ProcessTask(t.Context(), taskOf(t, map[string]any{"url": server.URL, "timeout": "1500ms"}))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %.200v, want %q", tt.name, err, tt.want)
		}
		if took := time.Since(start); took > 5*time.Second || err != nil && len(err.Error()) > 2000 {
			t.Errorf("%s: took %s, with an error of %d bytes", tt.name, took, len(err.Error()))
		}
		server.CloseClientConnections()
	}
}
