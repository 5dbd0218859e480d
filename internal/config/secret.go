package config

import (
	"fmt"
	"log/slog"
)

// redacted is what a Secret shows of itself.
const redacted = "[redacted]"

// A Secret is text that no log, message or dump may show. The zero Secret is
// empty. Only [Secret.Reveal] gives the text.
type Secret struct{ text string }

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{text: text} }

// Reveal returns the text, for the one place that hands it on.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is nothing to hide.
func (s Secret) IsZero() bool { return s.text == "" }

// String redacts.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return redacted
}

// Format redacts under every verb, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// LogValue redacts.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText redacts, and with it JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text as it is.
func (s *Secret) UnmarshalText(text []byte) error {
	s.text = string(text)
	return nil
}
