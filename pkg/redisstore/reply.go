package redisstore

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// A reply reads a script's answer by position. The first value that is not
// what it should be is kept in err, and everything after it reads as zero.
type reply struct {
	values []any
	single any
	err    error
}

func newReply(result any) reply {
	values, _ := result.([]any)
	return reply{values: values, single: result}
}

func (r *reply) at(i int) any {
	if i < len(r.values) {
		return r.values[i]
	}
	r.fail(i, nil)
	return nil
}

func (r *reply) fail(i int, value any) {
	if r.err == nil {
		r.err = fmt.Errorf("redisstore: value %d of a script's reply is %T %v, which this program does not expect", i, value, value)
	}
}

// number reads an integer, which may come as text.
func (r *reply) number(i int) int64 {
	value := r.at(i)
	switch v := value.(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	r.fail(i, value)
	return 0
}

func (r *reply) text(i int) string {
	value := r.at(i)
	text, ok := value.(string)
	if !ok {
		r.fail(i, value)
	}
	return text
}

// time reads milliseconds; 0 and "" are the zero time.
func (r *reply) time(i int) time.Time {
	if value, ok := r.at(i).(string); ok && value == "" {
		return time.Time{}
	}
	return instant(r.number(i))
}

func (r *reply) list(i int) reply {
	value := r.at(i)
	values, ok := value.([]any)
	if !ok {
		r.fail(i, value)
	}
	return reply{values: values}
}

// word is the whole answer of a script that returns one word.
func (r *reply) word() string {
	text, _ := r.single.(string)
	return text
}

// A fieldReader reads a record: fields that end with "|".
type fieldReader struct {
	rest string
	bad  bool
}

func (f *fieldReader) text() string {
	for i := range len(f.rest) {
		if f.rest[i] == '|' {
			field := f.rest[:i]
			f.rest = f.rest[i+1:]
			return field
		}
	}
	f.bad = true
	return ""
}

// maxNumber bounds the characters of a number, as scripts/lua/lib/schedule.lua does.
const maxNumber = 16

// number reads one number; Lua writes them as decimals.
func (f *fieldReader) number() int64 {
	text := f.text()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || len(text) > maxNumber || text[0] == '+' {
		f.bad = true
	}
	return n
}

func (f *fieldReader) time() time.Time { return instant(f.number()) }

func (f *fieldReader) int() int {
	n := f.number()
	if n > math.MaxInt32 {
		f.bad = true
	}
	return int(n)
}
