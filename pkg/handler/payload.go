package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/queue"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// MaxPayload bounds the payload that a handler of this package reads, in bytes.
const MaxPayload = schedule.MaxPayload

// maxText bounds text from outside in an error, in bytes.
const maxText = 512

// refuse makes the error final: trying again cannot help.
func refuse(kind string, err error) error {
	return fmt.Errorf("handler: %s: %w: %w", kind, err, asynq.SkipRetry)
}

// decode reads the payload, strictly: a field that is misspelt must not be
// ignored.
func decode(task *asynq.Task, into any) error {
	payload := task.Payload()
	if len(payload) > MaxPayload {
		return &schedule.FieldError{Field: "payload", Value: strconv.Itoa(len(payload)) + " bytes", Allowed: "at most " + strconv.Itoa(MaxPayload) + " bytes"}
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("payload is not as documented: %s", shorten(err.Error()))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return &schedule.FieldError{Field: "payload", Value: "more than one JSON value", Allowed: "one JSON object"}
	}
	return nil
}

// timeoutOf reads a duration field; "" is otherwise.
func timeoutOf(field, text string, otherwise time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, &schedule.FieldError{Field: field, Value: text, Allowed: `a positive duration such as "30s"`}
	}
	return d, nil
}

// firingOf returns what is known of the firing, and its idempotency key. A task
// that belongs to no schedule has its task ID as the key.
func firingOf(ctx context.Context, task *asynq.Task) (queue.Firing, string) {
	id, known := asynq.GetTaskID(ctx)
	firing, ok := queue.FiringFrom(ctx)
	if !ok {
		firing, ok = queue.FiringOf(task)
		ok = ok && (!known || claim.FiringID(id).WithoutRedrives() == firing.ID) // headers may be another task's, handed on
	}
	if ok {
		return firing, string(firing.ID)
	}
	return queue.Firing{}, id
}

// shorten makes text from outside fit for an error: quoted, so that control
// characters are harmless, without the quotes, and cut.
func shorten(text string) string {
	cut := len(text) > maxText
	if cut {
		text = text[:maxText]
	}
	quoted := strconv.QuoteToGraphic(text)
	quoted = quoted[1 : len(quoted)-1]
	if cut {
		quoted += "…"
	}
	return quoted
}
