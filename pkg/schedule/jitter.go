package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"
)

// NotBefore returns when the scheduled time at is due: at plus an offset in
// [0, Jitter) that depends on nothing but the schedule ID, at and the distance
// to the following instant of the spec. It is the same on every worker and
// after every restart, and always before the following scheduled time.
func (c *Compiled) NotBefore(at time.Time) time.Time {
	span := c.definition.Jitter.Milliseconds()
	if span > 0 {
		if next, ok := c.spec.Next(at); ok {
			span = min(span, next.UnixMilli()-at.UnixMilli())
		}
	}
	if span <= 1 {
		return at
	}
	offset := stableHash(c.definition.ID, strconv.FormatInt(at.UnixMilli(), 10)) % uint64(span)
	return at.Add(time.Duration(offset) * time.Millisecond)
}

// stableHash must never change: the first eight bytes, big-endian, of the
// SHA-256 of the ID, a NUL and the text.
func stableHash(id ID, text string) uint64 {
	sum := sha256.Sum256([]byte(string(id) + "\x00" + text))
	return binary.BigEndian.Uint64(sum[:8])
}
