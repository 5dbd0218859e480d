package admincli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// The exit codes.
const (
	exitDone         = 0
	exitFailed       = 1
	exitUsage        = 2   // usage, or an invalid file or value
	exitDeclined     = 3   // declined or cancelled
	exitUnauthorised = 4   // Redis refused the login or the command
	exitNotFound     = 5   // no such schedule
	exitConflict     = 6   // version, or it exists
	exitUnreachable  = 7   // no answer from the store
	exitCondition    = 8   // the condition is not met
	exitInterrupted  = 130 // by a signal
)

// A codedError is an error with its exit code. Its text is all that is shown.
type codedError struct {
	code int
	text string
}

func (e *codedError) Error() string { return e.text }

func usageErrorf(format string, args ...any) error {
	return &codedError{exitUsage, fmt.Sprintf(format, args...)}
}

func codedErrorf(code int, format string, args ...any) error {
	return &codedError{code, fmt.Sprintf(format, args...)}
}

// A silentCode ends the process with a code and no message.
type silentCode int

func (c silentCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// exitCode maps an error to what the process ends with. The order matters:
// what the store refused comes before what the network did.
func exitCode(err error) int {
	var coded *codedError
	var silent silentCode
	var field *schedule.FieldError
	var inUse *schedule.InUseError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &silent):
		return int(silent)
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &field):
		return exitUsage
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, schedule.ErrNotFound):
		return exitNotFound
	case errors.Is(err, schedule.ErrConflict), errors.As(err, &inUse):
		return exitConflict
	case isUnauthorised(err):
		return exitUnauthorised
	case isUnreachable(err):
		return exitUnreachable
	}
	return exitFailed
}

// isUnauthorised knows the replies of Redis by their leading word.
func isUnauthorised(err error) bool {
	return hasWord(err, "NOAUTH", "WRONGPASS", "NOPERM") || notLoggedIn(err)
}

// notLoggedIn knows how Redis refuses a command of many or long arguments, such
// as a script, before the login: it does not read it far enough to say NOAUTH.
func notLoggedIn(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unauthenticated multibulk length") || strings.Contains(text, "unauthenticated bulk length")
}

// isUnreachable reports whether the store could not be talked to, or is not
// able to answer now.
func isUnreachable(err error) bool {
	// Not net.Error: every system call's error is one, a full disk among them.
	var operation *net.OpError
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &operation) || errors.As(err, &lookup) || errors.As(err, &certificate) || errors.As(err, &record) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) ||
		hasWord(err, "LOADING", "OOM", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN") ||
		strings.Contains(err.Error(), "connection pool timeout") || strings.Contains(err.Error(), "redis: can't parse") ||
		strings.Contains(err.Error(), "all sentinels specified in configuration are unreachable")
}

// hasWord reports whether an error in the chain starts with one of the words,
// as replies of Redis do.
func hasWord(err error, words ...string) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		for _, word := range words {
			if strings.HasPrefix(err.Error(), word+" ") || err.Error() == word {
				return true
			}
		}
	}
	return false
}

// describe renders an error as one line without control characters.
func describe(err error, address string) string {
	var coded *codedError
	var field *schedule.FieldError
	at := ""
	if address != "" {
		at = " at " + address
	}
	switch {
	case errors.As(err, &coded):
		return visible(coded.text)
	case errors.As(err, &field):
		return visible(field.Error())
	case errors.Is(err, errInterrupted):
		return "interrupted"
	case notLoggedIn(err):
		return visible(fmt.Sprintf("Redis%s refused: it wants a login: put user and password into BELFRY_REDIS_URL", at))
	case isUnauthorised(err):
		return visible(fmt.Sprintf("Redis%s refused: %s: check user, password and the user's permissions in BELFRY_REDIS_URL", at, innermost(err)))
	case errors.Is(err, context.DeadlineExceeded):
		return visible(fmt.Sprintf("Redis%s did not answer in time: see whether it is up and reachable, or raise --timeout", at))
	case hasWord(err, "OOM"):
		return visible(fmt.Sprintf("Redis%s is full: free memory or raise its maxmemory", at))
	case hasWord(err, "READONLY"):
		return visible(fmt.Sprintf("Redis%s is a read-only replica: name the master in BELFRY_REDIS_URL", at))
	case isUnreachable(err):
		return visible(fmt.Sprintf("Redis%s cannot be reached: %s: check BELFRY_REDIS_URL or --redis, and that the server is up", at, innermost(err)))
	}
	return visible(err.Error())
}

// innermost returns the text of the last error of the chain.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
