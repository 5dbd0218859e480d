package redisstore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// Settings are what the record of a schedule repeats of its definition, which
// scripts do not read.
type settings struct {
	queue                              string
	policy                             int // without policySkips
	bufferLimit, maxFailures, coolDown int64
	delay, ends, limit                 int64
}

// settingsOf are those of a definition.
func settingsOf(c *schedule.Compiled) settings {
	d := c.Definition()
	delay, hasDelay := c.Delay()
	policy := overlapNumbers[d.Overlap]
	if len(d.CalendarNames()) > 0 {
		policy += policyCalendar
	}
	if hasDelay {
		policy += policyDelay
	}
	return settings{queue: d.Queue, policy: policy, bufferLimit: int64(d.BufferLimit), maxFailures: int64(d.MaxFailures),
		coolDown: d.CoolDown.Milliseconds(), delay: delay.Milliseconds(), ends: millis(d.Ends), limit: d.Limit}
}

// storedSettings are those of a stored definition, false when this program
// cannot use it. What its calendars hold makes no difference.
func storedSettings(definition string) (settings, bool) {
	var d schedule.Schedule
	if d.UnmarshalJSON([]byte(definition)) != nil {
		return settings{}, false
	}
	uses := 0
	if len(d.CalendarNames()) > 0 {
		d.Except, d.Only, uses = nil, nil, policyCalendar
	}
	c, err := schedule.Compile(d, nil)
	if err != nil {
		return settings{}, false
	}
	s := settingsOf(c)
	s.policy += uses
	return s, true
}

// args are the settings in the order in which scripts take them.
func (s settings) args() []any {
	return []any{s.queue, s.policy, s.bufferLimit, s.maxFailures, s.coolDown, s.delay, s.ends, s.limit}
}

// unlike says in which settings a record differs from what they must be.
func (s settings) unlike(want settings) string {
	names := strings.Fields("queue policy buffer_limit max_failures cool_down_ms delay_ms ends_ms limit")
	var all []string
	wanted := want.args()
	for i, got := range s.args() {
		if got != wanted[i] {
			all = append(all, fmt.Sprintf("%s %s instead of %v", names[i], shown(fmt.Sprint(got)), wanted[i]))
		}
	}
	return strings.Join(all, ", ")
}

// mending is what repair_records wants to know of a schedule, nothing when its
// record needs none. The definition was read after the record: scripts see from
// generation and version whether it is still the one.
func mending(id string, r *record, definition string) []any {
	want, known := storedSettings(definition)
	differs := known && r.settings() != want
	if len(r.flaws) == 0 && r.ranges == r.closed() && !differs {
		return nil
	}
	generation := ""
	if differs {
		generation = strconv.FormatInt(r.generation, 10)
	}
	return append([]any{id, generation, r.version}, want.args()...)
}
