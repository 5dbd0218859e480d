package admincli

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/scripts/lua"
)

// A tracer tells of each call to Redis: how long it took, the command or the
// script, its key, and what was wrong. It never shows other arguments, which
// hold logins and payloads.
type tracer struct {
	mu   sync.Mutex
	line func(format string, args ...any)
	now  func() time.Time
	name map[string]string // of scripts, by hash
}

func newTracer(line func(format string, args ...any)) *tracer {
	t := &tracer{line: line, now: time.Now, name: map[string]string{}}
	scripts, _ := lua.All()
	for name, script := range scripts {
		t.name[script.Hash()] = name
	}
	return t
}

// DialHook tells of connections.
func (t *tracer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		began := t.now()
		conn, err := next(ctx, network, address)
		t.tell(began, "connect to "+address, err)
		return conn, err
	}
}

// ProcessHook tells of single commands.
func (t *tracer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := t.now()
		err := next(ctx, cmd)
		t.tell(began, t.describe(cmd), err)
		return err
	}
}

// ProcessPipelineHook tells of commands that are sent together.
func (t *tracer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := t.now()
		err := next(ctx, cmds)
		what := "nothing"
		if len(cmds) > 0 {
			what = t.describe(cmds[0])
		}
		if len(cmds) > 1 {
			what += fmt.Sprintf(" and %d more at once", len(cmds)-1)
		}
		t.tell(began, what, err)
		return err
	}
}

func (t *tracer) tell(began time.Time, what string, err error) {
	outcome := ""
	switch {
	case err == redis.Nil:
		outcome = ": nothing there"
	case err != nil:
		outcome = ": " + err.Error()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line("%8s  %s%s", t.now().Sub(began).Round(10*time.Microsecond), what, outcome)
}

// keyless are commands whose first argument is no key, and may be a secret.
var keyless = map[string]bool{"auth": true, "hello": true, "client": true, "config": true, "acl": true, "ping": true, "info": true, "script": true,
	"time": true, "multi": true, "exec": true, "select": true, "publish": true, "replicaof": true, "command": true, "cluster": true}

// describe names a command and its first key.
func (t *tracer) describe(cmd redis.Cmder) string {
	args, name := cmd.Args(), cmd.Name()
	text := func(i int) string {
		if i >= len(args) {
			return ""
		}
		return clip(fmt.Sprint(args[i]), maxCell)
	}
	switch {
	case name == "evalsha" || name == "eval" || name == "evalsha_ro" || name == "eval_ro":
		hash := ""
		if len(args) > 1 {
			hash = fmt.Sprint(args[1])
		}
		if name == "eval" || name == "eval_ro" {
			hash = redis.NewScript(hash).Hash()
		}
		script := t.name[hash]
		if script == "" {
			script = "of asynq or go-redis, " + clip(hash, 12)
		}
		if text(2) == "0" {
			return "script " + script
		}
		return "script " + script + " " + text(3)
	case keyless[name] || len(args) < 2:
		return name
	}
	return name + " " + text(1)
}
