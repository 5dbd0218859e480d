package storm

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// Dice are the randomness of one event. They depend on the seed, the virtual
// time and the names of the event alone, so that it does not matter in which
// order goroutines that wake together ask.
type dice struct{ state uint64 }

func roll(seed uint64, names ...string) *dice {
	h := fnv.New64a()
	var number [16]byte
	binary.BigEndian.PutUint64(number[:8], seed)
	binary.BigEndian.PutUint64(number[8:], uint64(time.Now().UnixNano()))
	_, _ = h.Write(number[:]) // never fails
	for _, name := range names {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{0})
	}
	return &dice{h.Sum64()}
}

// next is splitmix64.
func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// chance is true with probability p.
func (d *dice) chance(p float64) bool { return float64(d.next()>>11)/(1<<53) < p }

// between returns a duration from a to b, to the nanosecond: two events
// hardly ever happen at the same instant, which makes their order certain.
func (d *dice) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(d.next()%uint64(b-a))
}

// pick returns a number from 0 to n-1.
func (d *dice) pick(n int) int { return int(d.next() % uint64(n)) }
