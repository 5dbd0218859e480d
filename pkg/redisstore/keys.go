package redisstore

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
)

// shardKeyNames are the keys of a shard in the order in which every script
// receives them; scripts/lua/lib/shard.lua says what they hold.
var shardKeyNames = [...]string{"due", "def", "st", "fir", "aud", "out", "meta", "idem",
	"opn", "buf", "skp", "bf", "bfq", "lbl", "evt"}

// Positions in shardKeyNames.
const (
	keyDue = iota
	keyDefinition
	keyState
	keyFiring
	keyAudit
	keyOutcome
	keyMeta
	keyRequest
	keyOpen
	keyBuffer
	keySkip
	keyBackfill
	keyBackfillDue
	keyLabel
	keyEvent
)

// controlTag is the hash tag of what a namespace has once.
const controlTag = "ctl"

// keys builds every key of a namespace. A shard shares one hash tag, so all
// its keys are in one slot.
type keys struct{ namespace string }

func (k keys) key(tag, name string) string {
	return "belfry:{" + k.namespace + ":" + tag + "}:" + name
}

func shardTag(shard int) string { return fmt.Sprintf("%02d", shard) }

func (k keys) shard(shard int) []string {
	all := make([]string, len(shardKeyNames))
	for i, name := range shardKeyNames {
		all[i] = k.key(shardTag(shard), name)
	}
	return all
}

// runLog is the list of a schedule's ended runs, newest first.
func (k keys) runLog(shard int, id schedule.ID) string {
	return k.key(shardTag(shard), "run:"+string(id))
}

// configuration holds the format and the number of shards.
func (k keys) configuration() string { return k.key(controlTag, "conf") }

// calendars holds calendar definitions by name; their version is in conf.
func (k keys) calendars() string { return k.key(controlTag, "cal") }

// calendarChanges holds changes of calendars that the shards may not know of
// yet, by name.
func (k keys) calendarChanges() string { return k.key(controlTag, "calq") }

// workers holds when each worker was seen, members what it said of itself.
func (k keys) workers() string { return k.key(controlTag, "workers") }
func (k keys) members() string { return k.key(controlTag, "members") }

// drains holds which workers are to take no new work.
func (k keys) drains() string { return k.key(controlTag, "drains") }

// roster are the keys of announce and members.
func (k keys) roster() []string { return []string{k.workers(), k.members(), k.drains()} }

// periodic holds the periodic tasks, see scripts/lua/lib/periodic.lua.
func (k keys) periodic() string { return k.key(controlTag, "periodic") }

// leases holds the names of all leases that were ever granted.
func (k keys) leases() string { return k.key(controlTag, "leases") }

func (k keys) lease(name string) string { return k.key(controlTag, "lease:"+name) }

// wakeChannel carries a message whenever something became due earlier.
func (k keys) wakeChannel() string { return "belfry:" + k.namespace + ":wake" }

// periodicChannel carries a message when a periodic task was triggered or
// resumed. It is apart from the other, which is busy.
func (k keys) periodicChannel() string { return k.wakeChannel() + ":periodic" }

// workersChannel carries a message when something is wanted of a worker.
func (k keys) workersChannel() string { return k.wakeChannel() + ":workers" }

// isReserved reports whether a queue of that name would share the hash tag of
// a shard: what a failover loses of the queue must not be lost with the
// evidence that it ran.
func (k keys) isReserved(queue string) bool {
	tag, ok := strings.CutPrefix(queue, k.namespace+":")
	if !ok {
		return false
	}
	return tag == controlTag || tag != "" && strings.Trim(tag, "0123456789") == ""
}

// shardOf places a schedule. The function must never change: what is stored
// was placed by it.
func shardOf(id schedule.ID, shards int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	return int(h.Sum64() % uint64(shards))
}

// Members of the index of IDs, labels and calendars: a prefix, \x01 and the
// ID, so that one prefix lists IDs in order.
const (
	indexMark    = "\x01"
	calendarMark = "\x02" // begins the members for calendars
)

func idMember(id schedule.ID) string              { return indexMark + string(id) }
func labelPrefix(key, value string) string        { return key + "=" + value + indexMark }
func calendarPrefix(name string) string           { return calendarMark + name + indexMark }
func member(prefix string, id schedule.ID) string { return prefix + string(id) }
func after(prefix string, id schedule.ID) string  { return "(" + prefix + string(id) }
func beyond(prefix string) string                 { return "(" + strings.TrimSuffix(prefix, indexMark) + "\x02" }
func idOfMember(prefix, text string) schedule.ID {
	return schedule.ID(strings.TrimPrefix(text, prefix))
}
