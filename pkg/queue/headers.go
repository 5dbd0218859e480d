package queue

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// Names of the task headers that carry the metadata of a firing. A consumer in
// another language reads the same.
const (
	HeaderFiring      = "Belfry-Firing"       // firing ID
	HeaderSchedule    = "Belfry-Schedule"     // schedule ID
	HeaderGeneration  = "Belfry-Generation"   // generation of the schedule, decimal
	HeaderScheduledAt = "Belfry-Scheduled-At" // scheduled time, Unix milliseconds; absent for a manual run that stands for none
	HeaderToken       = "Belfry-Token"        // token of the claim; absent when a firing was enqueued without one
	HeaderEffect      = "Belfry-Effect"       // "at_most_once"; absent otherwise
	HeaderNamespace   = "Belfry-Namespace"    // namespace of the schedule; absent when the enqueuer has none
	HeaderMaxRetry    = "Belfry-Max-Retry"    // max_retry of the definition, decimal; asynq itself gets at least 1
)

// mostRetries bounds what a header says: far beyond what a definition may, and
// safe to count on from.
const mostRetries = 1 << 20

// headerPrefix is reserved; headers of users must not start with it.
const headerPrefix = "Belfry-"

// A Firing is what a handler may know about the firing that it runs. The zero
// Firing is none.
type Firing struct {
	ID          claim.FiringID // the idempotency key
	Schedule    schedule.ID
	Generation  int64
	Kind        claim.Kind
	ScheduledAt time.Time   // UTC; zero for a manual run, unless its trigger named one
	Attempt     int         // 1 is the first; crashes count. 0 outside the middleware
	Token       claim.Token // of the execution: refuse smaller ones where you write. 0 outside the middleware
}

type firingKey struct{}

// FiringFrom returns the firing that the handler with this context runs. False
// means that the task belongs to no schedule, or that no [Middleware] is there.
func FiringFrom(ctx context.Context) (Firing, bool) {
	f, ok := ctx.Value(firingKey{}).(Firing)
	return f, ok
}

// FiringOf reads the firing from the headers of a task, for consumers without a
// [Middleware]; attempt and token are zero then. False means that the task
// belongs to no schedule or that its headers are damaged.
func FiringOf(task *asynq.Task) (Firing, bool) {
	m, ok, err := readHeaders(task.Headers())
	return m.firing, ok && err == nil
}

// meta is everything that the headers of a firing's task say.
type meta struct {
	firing    Firing
	namespace string // "" when the header is missing
	effect    schedule.Effect
	maxRetry  int // -1 when the header is missing
}

// readHeaders returns false when the headers name no firing, and an error when
// they name one that cannot be read.
func readHeaders(headers map[string]string) (meta, bool, error) {
	id, ok := headers[HeaderFiring]
	if !ok {
		return meta{}, false, nil
	}
	parsed, err := claim.ParseFiringID(id)
	if err == nil && strings.Contains(id, "~") {
		err = &schedule.FieldError{Field: HeaderFiring, Value: id, Allowed: "a firing ID without a re-drive suffix"}
	}
	if err != nil {
		return meta{}, true, err
	}
	m := meta{namespace: headers[HeaderNamespace], effect: schedule.AtLeastOnce, maxRetry: -1, firing: Firing{
		ID: claim.FiringID(id), Schedule: parsed.Schedule, Generation: parsed.Generation,
		Kind: parsed.Kind, ScheduledAt: parsed.ScheduledAt,
	}}
	if ms, err := strconv.ParseInt(headers[HeaderScheduledAt], 10, 64); err == nil && ms > 0 && parsed.Kind == claim.KindManual {
		m.firing.ScheduledAt = time.UnixMilli(ms).UTC() // of the others the ID says it
	}
	if schedule.Effect(headers[HeaderEffect]) == schedule.AtMostOnce {
		m.effect = schedule.AtMostOnce
	}
	if n, err := strconv.Atoi(headers[HeaderMaxRetry]); err == nil && n >= 0 {
		m.maxRetry = min(n, mostRetries)
	}
	return m, true, nil
}

// sameNamespace reports whether a task can be of a namespace, as far as both
// say: tasks of earlier workers have no such header.
func sameNamespace(own, header string) bool {
	return own == "" || header == "" || own == header
}

// writeHeaders returns the headers of the push: those of the user and ours.
func writeHeaders(namespace string, p Push, f claim.Firing, maxRetry int) (map[string]string, error) {
	headers := make(map[string]string, len(p.Definition.Headers)+8)
	for name := range p.Definition.Headers {
		if len(name) >= len(headerPrefix) && strings.EqualFold(name[:len(headerPrefix)], headerPrefix) {
			return nil, &schedule.FieldError{Field: "headers", Value: name, Allowed: "names that do not start with " + headerPrefix}
		}
	}
	maps.Copy(headers, p.Definition.Headers)
	headers[HeaderFiring] = string(p.Firing)
	headers[HeaderSchedule] = string(f.Schedule)
	headers[HeaderGeneration] = strconv.FormatInt(f.Generation, 10)
	headers[HeaderMaxRetry] = strconv.Itoa(maxRetry)
	if f.Kind == claim.KindManual && p.Extra != nil {
		f.ScheduledAt = p.Extra.ScheduledAt
	}
	if !f.ScheduledAt.IsZero() {
		headers[HeaderScheduledAt] = strconv.FormatInt(f.ScheduledAt.UnixMilli(), 10)
	}
	if namespace != "" {
		headers[HeaderNamespace] = namespace
	}
	if p.Token != 0 {
		headers[HeaderToken] = p.Token.String()
	}
	if p.Definition.Effect == schedule.AtMostOnce {
		headers[HeaderEffect] = string(schedule.AtMostOnce)
	}
	return headers, nil
}
