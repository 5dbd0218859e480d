package schedule

import (
	"regexp"
	"strconv"
)

// An ID names a schedule within a namespace. It is 1 to 128 bytes of letters,
// digits, dot, underscore and hyphen, and starts with a letter or digit.
type ID string

var (
	idPattern        = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	queuePattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$`)
	namespacePattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,32}$`)
	requestPattern   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,36}$`)
)

// Validate returns a *FieldError when the ID is not one.
func (id ID) Validate() error {
	if idPattern.MatchString(string(id)) {
		return nil
	}
	return &FieldError{Field: "id", Value: string(id),
		Allowed: "1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit"}
}

// ValidateQueue returns a *FieldError when name is not a queue name.
func ValidateQueue(name string) error {
	if queuePattern.MatchString(name) {
		return nil
	}
	return &FieldError{Field: "queue", Value: name,
		Allowed: "1 to 64 letters, digits, '_', '.', ':' or '-', starting with a letter or digit"}
}

// ValidateNamespace returns a *FieldError when name is not a namespace.
func ValidateNamespace(name string) error {
	if namespacePattern.MatchString(name) {
		return nil
	}
	return &FieldError{Field: "namespace", Value: name, Allowed: "1 to 32 letters, digits or '-'"}
}

// ValidateRequestID returns a *FieldError when id is not a request ID.
func ValidateRequestID(id string) error {
	if requestPattern.MatchString(id) {
		return nil
	}
	return &FieldError{Field: "request_id", Value: id, Allowed: "1 to 36 letters, digits, '_' or '-'"}
}

// ValidateType returns a *FieldError when name is not a task type.
func ValidateType(name string) error {
	ok := len(name) >= 1 && len(name) <= 128
	for i := 0; ok && i < len(name); i++ {
		ok = name[i] > ' ' && name[i] < 0x7f
	}
	if ok {
		return nil
	}
	return &FieldError{Field: "type", Value: name, Allowed: "1 to 128 printable ASCII bytes without spaces"}
}

// A FieldError reports input that is not accepted. Correct the field and try
// again; nothing was changed.
type FieldError struct {
	Field   string // name as in a schedule file, such as "timezone" or "specs[1].cron"
	Value   string // what was given
	Allowed string // what is accepted instead
	Hint    string // the likely intention, such as a corrected expression; may be empty
}

// maxShown bounds how much of a refused value an error repeats, in bytes.
const maxShown = 120

// Error names the field, the value (quoted, so that control characters are
// harmless, and cut when long) and what is allowed.
func (e *FieldError) Error() string {
	value := e.Value
	if len(value) > maxShown {
		value = value[:maxShown] + "…"
	}
	msg := e.Field + " " + strconv.QuoteToASCII(value) + ": allowed: " + e.Allowed
	if e.Hint != "" {
		msg += " (" + e.Hint + ")"
	}
	return msg
}
