package handler

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Headers that the http handler adds to a request.
const (
	HeaderIdempotency = "Idempotency-Key"  // the firing ID: equal for every attempt
	HeaderSignature   = "Belfry-Signature" // see Sign
	HeaderAttempt     = "Belfry-Attempt"   // 1 is the first
)

const (
	maxRedirects = 5
	maxBodyRead  = 64 << 10 // bytes of a response that are read
)

// HTTPOptions configure the http handler.
type HTTPOptions struct {
	// AllowedHosts may be called: "example.com" (at the scheme's own port),
	// "example.com:8443" or "*.example.com". Empty: none, every request is
	// refused.
	AllowedHosts []string
	AllowAll     bool          // any host, the internal network included; AllowedHosts must be empty then
	Secret       []byte        // signs requests, see Sign; empty: no signature
	Timeout      time.Duration // of a request whose payload has none; 0 is 30 s. The timeout of the task bounds it, too
	// Transport sends the requests. Nil: through the proxy of the environment,
	// if there is one, and never to where an allowed name leads that resolves to
	// this host (but "localhost") or to a link-local address, such as the
	// metadata service of a cloud. AllowAll allows those too.
	Transport http.RoundTripper
}

// httpPayload is the payload of an http task.
type httpPayload struct {
	Method    string            `json:"method"`  // "" is POST with a body, else GET
	URL       string            `json:"url"`     // http or https, of an allowed host
	Headers   map[string]string `json:"headers"` // of the request
	Body      json.RawMessage   `json:"body"`    // a string is sent as it is, anything else as JSON
	Timeout   string            `json:"timeout"` // such as "10s"
	Signature *bool             `json:"signature"`
}

// httpHandler sends requests.
type httpHandler struct {
	hosts   *hostList
	secret  []byte
	timeout time.Duration
	client  *http.Client
	dialer  *dialer // nil when the transport is the caller's
}

// NewHTTP returns a handler for tasks whose payload describes a request:
//
//	{"method": "POST", "url": "https://example.com/run", "headers": {"X-A": "b"},
//	 "body": {"any": "json"}, "timeout": "10s", "signature": true}
//
// Only url is required. A response with a status below 400 is a success;
// redirects are followed to allowed hosts only. "signature": true refuses to
// send without a secret, false sends unsigned. It returns a
// *schedule.FieldError for options that are refused.
func NewHTTP(options HTTPOptions) (asynq.Handler, error) {
	if options.AllowAll && len(options.AllowedHosts) > 0 {
		return nil, &schedule.FieldError{Field: "allowed_hosts", Value: strings.Join(options.AllowedHosts, ","), Allowed: "none beside AllowAll"}
	}
	if options.Timeout < 0 {
		return nil, &schedule.FieldError{Field: "timeout", Value: options.Timeout.String(), Allowed: "0 or more"}
	}
	if options.Timeout == 0 {
		options.Timeout = 30 * time.Second
	}
	hosts, err := newHostList(options.AllowedHosts, options.AllowAll)
	if err != nil {
		return nil, err
	}
	h := &httpHandler{hosts: hosts, secret: options.Secret, timeout: options.Timeout}
	h.client = &http.Client{Transport: options.Transport, CheckRedirect: h.checkRedirect}
	if options.Transport == nil {
		h.client.Transport, h.dialer = newTransport(hosts)
	}
	return h, nil
}

// ProcessTask sends the request.
func (h *httpHandler) ProcessTask(ctx context.Context, task *asynq.Task) error {
	var payload httpPayload
	if err := decode(task, &payload); err != nil {
		return refuse("http", err)
	}
	timeout, err := timeoutOf("payload.timeout", payload.Timeout, h.timeout)
	if err != nil {
		return refuse("http", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := h.request(ctx, task, payload)
	if err != nil {
		return refuse("http", err)
	}
	return h.send(task, request)
}

// request builds the request, or says what is wrong with the payload.
func (h *httpHandler) request(ctx context.Context, task *asynq.Task, payload httpPayload) (*http.Request, error) {
	target, err := url.Parse(payload.URL)
	if err != nil { // its text repeats the URL, which may hold a password
		return nil, &schedule.FieldError{Field: "payload.url", Value: "", Allowed: "an http or https URL"}
	}
	if err := h.hosts.checkURL("payload.url", target); err != nil {
		return nil, err
	}
	body, isJSON, err := bodyOf(payload.Body)
	if err != nil {
		return nil, err
	}
	method := payload.Method
	if method == "" {
		method = http.MethodGet
		if body != nil {
			method = http.MethodPost
		}
	}
	method = strings.ToUpper(method)
	request, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil || method == http.MethodConnect || method == http.MethodTrace {
		return nil, &schedule.FieldError{Field: "payload.method", Value: method, Allowed: "an HTTP method"}
	}
	if isJSON {
		request.Header.Set("Content-Type", "application/json")
	}
	if err := setHeaders(request.Header, payload.Headers); err != nil {
		return nil, err
	}
	firing, key := firingOf(ctx, task)
	addFiring(request.Header, firing, key)
	return request, h.sign(request.Header, payload.Signature, key, body)
}

// bodyOf returns the bytes to send; nil is no body.
func bodyOf(raw json.RawMessage) (body []byte, isJSON bool, err error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, false, nil
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, false, &schedule.FieldError{Field: "payload.body", Value: "", Allowed: "a JSON value"}
		}
		return []byte(text), false, nil
	default:
		return raw, true, nil
	}
}

// managed are headers that a payload must not set: they frame the request, or
// are ours.
var managed = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Trailer": true,
	"Te": true, "Upgrade": true, "Expect": true, "Proxy-Authorization": true, HeaderIdempotency: true,
}

// setHeaders sets those of the payload. Errors never repeat a value.
func setHeaders(header http.Header, headers map[string]string) error {
	for name, value := range headers {
		canonical := http.CanonicalHeaderKey(name)
		if managed[canonical] || strings.HasPrefix(canonical, "Belfry-") {
			return &schedule.FieldError{Field: "payload.headers", Value: name, Allowed: "headers that the handler does not set itself"}
		}
		if !headerName(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return &schedule.FieldError{Field: "payload.headers", Value: name, Allowed: "a header name, and a value without control characters"}
		}
		header.Set(canonical, value)
	}
	return nil
}

// headerName reports whether name is a token of RFC 9110.
func headerName(name string) bool {
	for _, r := range name {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) {
			return false
		}
	}
	return name != ""
}

// addFiring adds the metadata of the firing.
func addFiring(header http.Header, firing queue.Firing, key string) {
	if key != "" {
		header.Set(HeaderIdempotency, key)
	}
	if firing.ID == "" {
		return
	}
	header.Set(queue.HeaderFiring, string(firing.ID))
	header.Set(queue.HeaderSchedule, string(firing.Schedule))
	if !firing.ScheduledAt.IsZero() {
		header.Set(queue.HeaderScheduledAt, strconv.FormatInt(firing.ScheduledAt.UnixMilli(), 10))
	}
	if firing.Attempt > 0 {
		header.Set(HeaderAttempt, strconv.Itoa(firing.Attempt))
	}
}

// sign adds the signature unless the payload declines it.
func (h *httpHandler) sign(header http.Header, wanted *bool, key string, body []byte) error {
	switch {
	case wanted != nil && !*wanted:
		return nil
	case len(h.secret) > 0:
		header.Set(HeaderSignature, Sign(h.secret, time.Now(), key, body))
		return nil
	case wanted != nil:
		return &schedule.FieldError{Field: "payload.signature", Value: "true", Allowed: "false while this worker has no signing secret"}
	}
	return nil
}

// Sign returns the value of the Belfry-Signature header: "t=<Unix
// seconds>,v1=<hex>", where hex is the HMAC-SHA256 under the secret of
// "<Unix seconds>.<idempotency key>." followed by the body. A receiver computes
// the same, compares in constant time with hmac.Equal, and refuses an old time.
func Sign(secret []byte, at time.Time, key string, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(seconds + "." + key + "."))
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// send sends the request. Its errors name the host only: path and query may
// hold secrets.
func (h *httpHandler) send(task *asynq.Task, request *http.Request) error {
	where := request.Method + " " + request.URL.Host
	response, err := h.client.Do(request)
	if err != nil {
		var wrapped *url.Error // its text repeats the URL
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		var field *schedule.FieldError
		if errors.As(err, &field) {
			return refuse("http", fmt.Errorf("%s: %w", where, field))
		}
		return fmt.Errorf("handler: http: %s: %w", where, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBodyRead))
	if response.StatusCode >= 400 {
		return fmt.Errorf("handler: http: %s: status %d: %s", where, response.StatusCode, shorten(string(body)))
	}
	if err != nil {
		return fmt.Errorf("handler: http: %s: read the response: %w", where, err)
	}
	keep(task, response, body)
	return nil
}

// keep leaves the status and the beginning of the body as the result of the
// task.
func keep(task *asynq.Task, response *http.Response, body []byte) {
	if w := task.ResultWriter(); w != nil {
		result := append([]byte(response.Proto+" "+response.Status+"\n\n"), body[:min(len(body), maxOutput)]...)
		_, _ = w.Write(result) // the request was made; its response is a nicety
	}
}

// checkRedirect follows redirects to allowed hosts, without stepping down from
// https. Another host gets no header of the payload and no signature.
func (h *httpHandler) checkRedirect(request *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	if len(via) > maxRedirects {
		return &schedule.FieldError{Field: "redirect", Value: request.URL.Host, Allowed: "at most " + strconv.Itoa(maxRedirects) + " redirects"}
	}
	if err := h.hosts.checkURL("redirect", request.URL); err != nil {
		return err
	}
	if last.URL.Scheme == "https" && request.URL.Scheme != "https" {
		return &schedule.FieldError{Field: "redirect", Value: request.URL.Scheme, Allowed: "https, as the request before"}
	}
	if canonicalHost(request.URL.Host) != canonicalHost(first.URL.Host) {
		kept := http.Header{}
		for _, name := range []string{HeaderIdempotency, "Content-Type"} {
			if value := request.Header.Get(name); value != "" {
				kept.Set(name, value)
			}
		}
		request.Header = kept // Referer goes, too: it would repeat the query
	}
	if request.Method != first.Method { // the body is gone, and what was signed with it
		request.Header.Del(HeaderSignature)
	}
	return nil
}
