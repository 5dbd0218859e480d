package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// maxWeight bounds the weight of a queue; asynq repeats a queue's name as
// often as its weight says.
const maxWeight = 100

// Queues maps queue names to weights.
type Queues map[string]int

// UnmarshalText reads the form "default=3,low=1". A name alone has weight 1.
func (q *Queues) UnmarshalText(text []byte) error {
	queues := Queues{}
	for item := range strings.SplitSeq(string(text), ",") {
		name, weight, hasWeight := strings.Cut(strings.TrimSpace(item), "=")
		if err := schedule.ValidateQueue(name); err != nil {
			return err
		}
		n := 1
		if hasWeight {
			var err error
			if n, err = strconv.Atoi(weight); err != nil || n < 1 || n > maxWeight {
				return fmt.Errorf("config: weight %q of queue %s: allowed: 1 to %d", weight, name, maxWeight)
			}
		}
		if _, twice := queues[name]; twice {
			return fmt.Errorf("config: queue %s is given twice: name it once", name)
		}
		queues[name] = n
	}
	*q = queues
	return nil
}

// String returns the form that UnmarshalText reads, sorted by name.
func (q Queues) String() string {
	items := make([]string, 0, len(q))
	for _, name := range slices.Sorted(maps.Keys(q)) {
		items = append(items, name+"="+strconv.Itoa(q[name]))
	}
	return strings.Join(items, ",")
}
