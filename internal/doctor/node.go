package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Node is one server of a deployment.
type Node struct {
	Address   string
	Info      map[string]string // of INFO, all sections; nil when InfoErr is set
	InfoErr   error
	Config    map[string]string // of CONFIG GET; nil when ConfigErr is set
	ConfigErr error
	Ahead     time.Duration // how far its clock is ahead of this machine's
	ClockErr  error
	Embedded  bool // a server inside a process, which keeps nothing
}

// setting asks CONFIG first, then INFO; either may be denied. False means that
// neither tells.
func (n Node) setting(config, info string) (string, bool) {
	if value, ok := n.Config[config]; ok {
		return value, true
	}
	value, ok := n.Info[info]
	return value, ok
}

// Clock limits. Half a second is what the workers allow for by default.
const (
	clockWarning = 500 * time.Millisecond
	clockError   = 5 * time.Second
)

// memoryWarning is how full the memory may be, in per cent.
const memoryWarning = 80

func nodes(f Facts) []Finding {
	var all []Finding
	for _, n := range f.Nodes {
		here := []Finding{embedded(f, n)}
		if !n.Embedded {
			here = append(here, version(f, n), eviction(n), memory(n), persistence(f, n), role(f, n))
		}
		here = append(here, clock(n))
		for _, finding := range here {
			if finding.Check == "" {
				continue
			}
			finding.About = n.Address
			if len(f.Nodes) > 1 {
				finding.Seen = n.Address + ": " + finding.Seen
			}
			all = append(all, finding)
		}
	}
	return all
}

func embedded(f Facts, n Node) Finding {
	if !n.Embedded {
		return Finding{}
	}
	return Finding{Check: "store", Level: severe(f), Seen: "the store is embedded in a process and gone when that ends",
		Do: "run a Redis server and set BELFRY_REDIS_URL in every worker"}
}

func eviction(n Node) Finding {
	policy, known := n.setting("maxmemory-policy", "maxmemory_policy")
	limit, limitKnown := n.setting("maxmemory", "maxmemory")
	finding := Finding{Check: "eviction", Level: OK, Seen: "maxmemory-policy " + policy}
	switch {
	case !known:
		finding.Level, finding.Seen = Unknown, "the server tells neither CONFIG nor INFO memory"
		finding.Do = "make sure that maxmemory-policy is noeviction: anything else drops schedules when memory is full"
	case policy != "noeviction":
		finding.Level = Error
		finding.Do = "set maxmemory-policy noeviction in the server's configuration: when memory is full, this policy drops schedules and tasks without a trace"
		if limitKnown && limit == "0" && n.ConfigErr == nil {
			finding.Fix = FixEviction
		}
	}
	return finding
}

func memory(n Node) Finding {
	used, _ := strconv.ParseInt(n.Info["used_memory"], 10, 64)
	text, _ := n.setting("maxmemory", "maxmemory")
	limit, _ := strconv.ParseInt(text, 10, 64)
	if used == 0 {
		return Finding{Check: "memory", Level: Unknown, Seen: "the server does not tell how much memory it uses", Do: "allow INFO for this user, or watch memory elsewhere"}
	}
	if limit == 0 {
		return Finding{Check: "memory", Level: OK, Seen: fmt.Sprintf("%d MiB used, no limit", used>>20)}
	}
	finding := Finding{Check: "memory", Level: OK, Seen: fmt.Sprintf("%d of %d MiB used", used>>20, limit>>20)}
	policy, _ := n.setting("maxmemory-policy", "maxmemory_policy")
	switch {
	case used >= limit && policy == "noeviction":
		finding.Level, finding.Do = Error, "raise maxmemory or free memory: it is full, every write is refused and nothing fires"
	case used*100 > limit*memoryWarning:
		finding.Level, finding.Do = Warning, "raise maxmemory: when it is reached, every write is refused and nothing fires"
	}
	return finding
}

func persistence(f Facts, n Node) Finding {
	aof, aofKnown := n.setting("appendonly", "aof_enabled")
	save, saveKnown := n.Config["save"]
	finding := Finding{Check: "persistence", Level: OK}
	aofOn := aof == "yes" || aof == "1"
	broken := ""
	for _, name := range []string{"rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"} {
		if status := n.Info[name]; status != "" && status != "ok" && (aofOn || !strings.HasPrefix(name, "aof")) {
			broken = name + " is " + status
		}
	}
	switch {
	case broken != "":
		finding.Level, finding.Seen, finding.Do = Error, broken, "look at the server's log and disk: what is written now may not survive a restart"
	case !aofKnown:
		finding.Level, finding.Seen = Unknown, "the server does not tell how it persists"
		finding.Do = "make sure that appendonly is yes"
	case aofOn:
		finding.Seen = "append-only file"
		if fsync := n.Config["appendfsync"]; fsync != "" {
			finding.Seen += ", appendfsync " + fsync
		}
		if n.Config["appendfsync"] == "no" {
			finding.Level, finding.Do = severe(f), "set appendfsync everysec: now a crash of the machine loses half a minute"
		}
	case saveKnown && save == "":
		finding.Level, finding.Seen = severe(f), "neither append-only file nor snapshots"
		finding.Do = "set appendonly yes: a restart of the server loses every schedule"
	default:
		finding.Level, finding.Seen = severe(f), "snapshots only"
		finding.Do = "set appendonly yes: a crash loses everything since the last snapshot"
	}
	return finding
}

func role(f Facts, n Node) Finding {
	switch n.Info["role"] {
	case "":
		return Finding{}
	case "slave":
		return Finding{Check: "role", Level: Error, Seen: "the server is a replica", Do: "point BELFRY_REDIS_URL at the master, at Sentinel or at the Cluster"}
	}
	replicas := n.Info["connected_slaves"]
	if replicas == "0" && f.Production {
		return Finding{Check: "role", Level: Warning, Seen: "master without a replica", Do: "add a replica and Sentinel, or a Cluster, if a lost machine must not stop the schedules"}
	}
	return Finding{Check: "role", Level: OK, Seen: "master, connected replicas: " + replicas}
}

func clock(n Node) Finding {
	if n.ClockErr != nil {
		return Finding{Check: "clock", Level: Unknown, Seen: "the server does not tell its time", Do: "allow TIME for this user: schedules fire by it"}
	}
	off := n.Ahead.Abs()
	finding := Finding{Check: "clock", Level: OK, Seen: "Redis and this machine agree within " + off.Round(time.Millisecond).String()}
	if off < clockWarning {
		return finding
	}
	finding.Level, finding.Do = Warning, "let both keep time by NTP"
	direction := "behind"
	if n.Ahead > 0 {
		direction = "ahead of"
	}
	finding.Seen = fmt.Sprintf("Redis is %s %s this machine", off.Round(time.Millisecond), direction)
	if off >= clockError {
		finding.Level = Error
		finding.Do = "let both keep time by NTP: a worker on a machine like this one fires late by as much"
	}
	return finding
}

func scripts(f Facts) Finding {
	if f.ScriptErr != nil {
		return Finding{Check: "scripts", Level: Error, Seen: "a script could not be run: " + f.ScriptErr.Error(),
			Do: "allow EVAL, EVALSHA and SCRIPT LOAD for this user (see docs/OPERATIONS.md)"}
	}
	return Finding{Check: "scripts", Level: OK, Seen: "scripts run"}
}
