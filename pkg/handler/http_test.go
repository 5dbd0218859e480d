package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// a got is what a server received.
type got struct {
	method, path, body string
	header             http.Header
}

// serverOf starts a server that answers with f after recording the request.
func serverOf(t *testing.T, f http.HandlerFunc) (*httptest.Server, *atomic.Pointer[got]) {
	t.Helper()
	var last atomic.Pointer[got]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the request: %v", err)
		}
		last.Store(&got{r.Method, r.URL.RequestURI(), string(body), r.Header.Clone()})
		f(w, r)
	}))
	t.Cleanup(server.Close)
	return server, &last
}

// httpFor returns a handler that may call the servers.
func httpFor(t *testing.T, options HTTPOptions, servers ...*httptest.Server) asynq.Handler {
	t.Helper()
	for _, server := range servers {
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		options.AllowedHosts = append(options.AllowedHosts, u.Host)
	}
	h, err := NewHTTP(options)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func ok(http.ResponseWriter, *http.Request) {}

func TestHTTPSendsTheRequest(t *testing.T) {
	server, last := serverOf(t, ok)
	secret := []byte("s3cret")
	h := httpFor(t, HTTPOptions{Secret: secret}, server)
	err := h.ProcessTask(t.Context(), taskOf(t, map[string]any{
		"method": "put", "url": server.URL + "/run?x=1", "headers": map[string]string{"X-Team": "billing"}, "body": map[string]int{"a": 1},
	}))
	if err != nil {
		t.Fatal(err)
	}
	r := last.Load()
	if r.method != "PUT" || r.path != "/run?x=1" || r.body != `{"a":1}` {
		t.Errorf("request = %s %s %q", r.method, r.path, r.body)
	}
	want := map[string]string{
		"X-Team": "billing", "Content-Type": "application/json", "Idempotency-Key": testFiring,
		"Belfry-Firing": testFiring, "Belfry-Schedule": "nightly", "Belfry-Scheduled-At": "1893553441000",
	}
	for name, value := range want {
		if r.header.Get(name) != value {
			t.Errorf("header %s = %q, want %q", name, r.header.Get(name), value)
		}
	}
	signature := r.header.Get(HeaderSignature)
	at, _, found := strings.Cut(strings.TrimPrefix(signature, "t="), ",")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !found || signature != Sign(secret, time.Unix(seconds, 0), testFiring, []byte(r.body)) {
		t.Errorf("signature = %q", signature)
	}
	if time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
		t.Errorf("signature is of %s", time.Unix(seconds, 0))
	}
}

// The scheme of the signature must not change unnoticed: receivers rely on it.
func TestSign(t *testing.T) {
	got := Sign([]byte("key"), time.Unix(1700000000, 0), "a:1:1000", []byte("{}"))
	// printf '1700000000.a:1:1000.{}' | openssl dgst -sha256 -hmac key
	const want = "t=1700000000,v1=2f1a5e475c4b10dc47761c6133af00088c1969e77c7afdb5c39992d207c7e457"
	if got != want {
		t.Errorf("Sign = %s, want %s", got, want)
	}
}

func TestHTTPBodies(t *testing.T) {
	server, last := serverOf(t, ok)
	h := httpFor(t, HTTPOptions{}, server)
	tests := []struct {
		body         any
		method, sent string
		contentType  string
	}{
		{nil, "GET", "", ""},
		{"text with \" and ü", "POST", "text with \" and ü", ""},
		{[]int{1, 2}, "POST", "[1,2]", "application/json"},
		{false, "POST", "false", "application/json"},
	}
	for _, tt := range tests {
		if err := h.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": server.URL, "body": tt.body})); err != nil {
			t.Fatal(err)
		}
		if r := last.Load(); r.method != tt.method || r.body != tt.sent || r.header.Get("Content-Type") != tt.contentType || r.header.Get(HeaderSignature) != "" {
			t.Errorf("body %v: sent %+v", tt.body, r)
		}
	}
}

func TestHTTPRefuses(t *testing.T) {
	server, last := serverOf(t, ok)
	h := httpFor(t, HTTPOptions{AllowedHosts: []string{"example.com", "*.example.org"}}, server)
	where := func(u string) map[string]any { return map[string]any{"url": u} }
	with := func(field string, value any) map[string]any { return map[string]any{"url": server.URL, field: value} }
	tests := []struct {
		name    string
		payload any
		field   string
	}{
		{"no JSON", []byte("\x00\x1b[31m"), ""},
		{"no payload", []byte(nil), ""},
		{"an unknown field", with("uri", "x"), ""},
		{"two values", []byte(`{"url":"http://example.com"}{}`), "payload"},
		{"a huge payload", []byte(`{"url":"` + strings.Repeat("a", MaxPayload) + `"}`), "payload"},
		{"no url", map[string]any{}, "payload.url"},
		{"another host", where("http://example.net/?token=canary"), "payload.url"},
		{"a host that ends alike", where("http://evilexample.com"), "payload.url"},
		{"the parent of a wildcard", where("http://example.org"), "payload.url"},
		{"another port", where("http://example.com:8080"), "payload.url"},
		{"user information", where("http://canary:canary@example.com"), "payload.url"},
		{"an allowed host as user", where("http://example.com@169.254.169.254/"), "payload.url"},
		{"a backslash", where(`http://169.254.169.254\@example.com/`), "payload.url"},
		{"an address as suffix", where("http://169.254.169.254/.example.org"), "payload.url"},
		{"file", where("file:///etc/passwd"), "payload.url"},
		{"gopher", where("gopher://example.com"), "payload.url"},
		{"opaque", where("http:example.com"), "payload.url"},
		{"a control character", where("http://example.com/\r\nHost: x"), "payload.url"},
		{"a bad method", with("method", "GET /\r\n"), "payload.method"},
		{"CONNECT", with("method", "connect"), "payload.method"},
		{"a header with a line break", with("headers", map[string]string{"X-A": "canary\r\nX-B: c"}), "payload.headers"},
		{"a header name with a line break", with("headers", map[string]string{"X-A\r\nX-B": "canary"}), "payload.headers"},
		{"the host header", with("headers", map[string]string{"host": "canary"}), "payload.headers"},
		{"framing", with("headers", map[string]string{"Transfer-Encoding": "canary"}), "payload.headers"},
		{"our header", with("headers", map[string]string{"belfry-firing": "canary"}), "payload.headers"},
		{"the idempotency key", with("headers", map[string]string{"idempotency-key": "canary"}), "payload.headers"},
		{"a negative timeout", with("timeout", "-1s"), "payload.timeout"},
		{"a timeout without unit", with("timeout", "10"), "payload.timeout"},
		{"a signature without a secret", with("signature", true), "payload.signature"},
	}
	for _, tt := range tests {
		err := h.ProcessTask(t.Context(), taskOf(t, tt.payload))
		refused(t, tt.name, err, tt.field)
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error repeats a secret: %v", tt.name, err)
		}
	}
	if last.Load() != nil {
		t.Error("a request was sent")
	}
}

func TestHTTPRefusesEverythingByDefault(t *testing.T) {
	server, last := serverOf(t, ok)
	h := httpFor(t, HTTPOptions{})
	refused(t, "no hosts", h.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": server.URL})), "payload.url")
	h = httpFor(t, HTTPOptions{AllowAll: true})
	if err := h.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": server.URL})); err != nil || last.Load() == nil {
		t.Errorf("AllowAll: %v", err)
	}
}

func TestHostList(t *testing.T) {
	list, err := newHostList([]string{"Example.COM.", "api.example.com:8443", "*.example.org", "[::1]:8080", "10.0.0.1"}, false)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		url  string
		want bool
	}{
		{"https://example.com/x", true},
		{"https://EXAMPLE.com.:443/", true},
		{"http://example.com:443/", false},
		{"https://api.example.com:8443", true},
		{"https://api.example.com", false},
		{"https://a.b.example.org", true},
		{"https://example.org", false},
		{"https://.example.org", false},
		{"http://[::1]:8080/", true},
		{"http://[::1]/", false},
		{"http://10.0.0.1/", true},
		{"http://0x0a000001/", false},
		{"http://10.0.0.1.nip.io/", false},
	}
	for _, tt := range tests {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := list.allows(u); got != tt.want {
			t.Errorf("allows(%s) = %v", tt.url, got)
		}
	}
	for _, bad := range []string{"", "http://example.com", "example.com/x", "*", "*example.com", "*.", "a*.example.com", "a b"} {
		var field *schedule.FieldError
		if _, err := NewHTTP(HTTPOptions{AllowedHosts: []string{bad}}); !errors.As(err, &field) {
			t.Errorf("allowed host %q: %v, want a FieldError", bad, err)
		}
	}
	for _, bad := range []HTTPOptions{{AllowAll: true, AllowedHosts: []string{"a"}}, {Timeout: -1}} {
		var field *schedule.FieldError
		if _, err := NewHTTP(bad); !errors.As(err, &field) {
			t.Errorf("NewHTTP(%+v) = %v", bad, err)
		}
	}
}

func TestHTTPStatus(t *testing.T) {
	for _, status := range []int{200, 204, 304, 400, 404, 429, 500, 503} {
		server, _ := serverOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, "why\x1b[31m\r\nforged", strings.Repeat("x", 200<<10))
		})
		err := httpFor(t, HTTPOptions{}, server).ProcessTask(t.Context(), taskOf(t, map[string]any{"url": server.URL + "/?token=canary"}))
		if (err != nil) != (status >= 400) {
			t.Errorf("status %d: %v", status, err)
		}
		if err == nil {
			continue
		}
		text := err.Error()
		if !strings.Contains(text, strconv.Itoa(status)) || !strings.Contains(text, "why") || len(text) > 2*maxText ||
			strings.ContainsAny(text, "\x1b\r\n") || strings.Contains(text, "canary") || errors.Is(err, asynq.SkipRetry) {
			t.Errorf("status %d: error %.300q", status, text)
		}
	}
}

func TestHTTPRedirects(t *testing.T) {
	other, otherLast := serverOf(t, ok)
	tests := []struct {
		name   string
		status int
		to     string
		allow  bool
		field  string
	}{
		{"to an allowed host", 307, other.URL + "/end", true, ""},
		{"with a changed method", 303, other.URL + "/end", true, ""},
		{"to another host", 307, other.URL + "/?token=canary", false, "redirect"},
		{"to the metadata of a cloud", 302, "http://169.254.169.254/latest", true, "redirect"},
		{"to a file", 302, "file:///etc/passwd", true, "redirect"},
		{"for ever", 302, "/", true, "redirect"},
	}
	for _, tt := range tests {
		otherLast.Store(nil)
		server, _ := serverOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", tt.to)
			w.WriteHeader(tt.status)
		})
		servers := []*httptest.Server{server}
		if tt.allow {
			servers = append(servers, other)
		}
		err := httpFor(t, HTTPOptions{Secret: []byte("s")}, servers...).ProcessTask(t.Context(), taskOf(t, map[string]any{
			"url": server.URL + "/?token=canary", "body": "b", "headers": map[string]string{"X-Api-Key": "canary"},
		}))
		if tt.field != "" {
			refused(t, tt.name, err, tt.field)
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: error repeats a secret: %v", tt.name, err)
			}
			if otherLast.Load() != nil {
				t.Errorf("%s: it was followed", tt.name)
			}
			continue
		}
		r := otherLast.Load()
		if err != nil || r == nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for name, values := range r.header {
			if name == HeaderSignature || strings.Contains(fmt.Sprint(values), "canary") {
				t.Errorf("%s: another host got %s: %v", tt.name, name, values)
			}
		}
		if r.header.Get(HeaderIdempotency) != testFiring {
			t.Errorf("%s: the idempotency key was dropped", tt.name)
		}
	}
}

func TestHTTPTimeoutAndCancel(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 2)
	server, _ := serverOf(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	t.Cleanup(func() { close(release) })
	h := httpFor(t, HTTPOptions{}, server)
	err := h.ProcessTask(t.Context(), taskOf(t, map[string]any{"url": server.URL + "/?token=canary", "timeout": "50ms"}))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, asynq.SkipRetry) || strings.Contains(err.Error(), "canary") {
		t.Errorf("timeout: %v", err)
	}
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if err := h.ProcessTask(ctx, taskOf(t, map[string]any{"url": server.URL})); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: %v", err)
	}
}

func TestCheckRedirect(t *testing.T) {
	h := &httpHandler{hosts: &hostList{all: true}}
	request := func(method, target string) *http.Request {
		r := httptest.NewRequest(method, target, nil)
		r.Header.Set(HeaderSignature, "t=1,v1=aa")
		return r
	}
	var field *schedule.FieldError
	if err := h.checkRedirect(request("GET", "http://a.example/"), []*http.Request{request("GET", "https://a.example/")}); !errors.As(err, &field) {
		t.Errorf("a step down from https: %v, want a FieldError", err)
	}
	for _, method := range []string{"POST", "GET"} {
		next := request(method, "https://a.example/2")
		if err := h.checkRedirect(next, []*http.Request{request("POST", "https://a.example/1")}); err != nil {
			t.Error(err)
		}
		if kept := next.Header.Get(HeaderSignature) != ""; kept != (method == "POST") {
			t.Errorf("redirected as %s: signature kept = %v", method, kept)
		}
	}
}
