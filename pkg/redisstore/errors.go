package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// ErrNewerFormat reports that a newer version of this program wrote to the
// namespace. Stop, and upgrade; retrying cannot succeed.
var ErrNewerFormat = errors.New("redisstore: stored format is newer")

// wrap adds what was being done. Redis does not say which key has the wrong
// type.
func wrap(doing string, err error) error {
	if isWrongType(err) {
		return fmt.Errorf("redisstore: %s: a key is not of the type that it must be, admin doctor names it: %w", doing, err)
	}
	return fmt.Errorf("redisstore: %s: %w", doing, err)
}

// An abortCause is why a transaction was not carried out, as Redis says it.
type abortCause string

func (e abortCause) Error() string { return string(e) }

// RedisError marks it as a reply of Redis.
func (abortCause) RedisError() {}

// cause returns why a transaction failed. EXEC says only that it was discarded;
// what was refused, such as with READONLY or OOM, its commands say.
func cause(commands []redis.Cmder, err error) error {
	if !redis.HasErrorPrefix(err, "EXECABORT") {
		return err
	}
	if _, why, found := strings.Cut(err.Error(), "because of: "); found {
		return abortCause(why)
	}
	for _, command := range commands {
		if one := command.Err(); one != nil && !redis.HasErrorPrefix(one, "EXECABORT") {
			return one
		}
	}
	return err
}

// unavailable are the first words of replies by a server that works again
// without anybody changing the call.
var unavailable = map[string]bool{
	"LOADING": true, "READONLY": true, "CLUSTERDOWN": true, "MASTERDOWN": true, "TRYAGAIN": true,
	"BUSY": true, "NOREPLICAS": true, "MISCONF": true, "OOM": true, "MOVED": true, "ASK": true,
}

// IsUnavailable reports whether the error means that Redis cannot be reached
// or does not serve now: refused, reset or timed-out connections, a server
// that loads, fails over, is out of memory or has lost its cluster. Waiting
// and calling again is the right answer. A call that timed out may have taken
// effect. A cancelled context is not unavailability; a deadline is.
func IsUnavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return true
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	return unavailable[word]
}
