package storm

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
)

// client returns a Redis client whose commands, which are those of asynq's
// client and inspector, are answered by the broker. It never connects.
func (p *process) client() *redis.Client {
	client := redis.NewClient(redistest.Options("127.0.0.1:1"))
	client.AddHook(&wiring{p})
	p.sim.atomically(func() { p.sim.closing = append(p.sim.closing, client) })
	return client
}

// wiring answers the commands of a process.
type wiring struct{ p *process }

// DialHook refuses: nothing must reach a socket.
func (w *wiring) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("storm: the broker does not know this command")
	}
}

// ProcessPipelineHook changes nothing: asynq's client uses no pipelines.
func (w *wiring) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook answers.
func (w *wiring) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := w.answer(ctx, cmd)
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

func (w *wiring) answer(ctx context.Context, cmd redis.Cmder) error {
	args := cmd.Args()
	text := func(i int) string {
		s, _ := args[i].(string)
		return s
	}
	switch cmd := cmd.(type) {
	case *redis.IntCmd: // SADD asynq:queues, PUBLISH asynq:cancel
		if cmd.Name() == "publish" {
			_, err := call(ctx, w.p, "cancel", text(2), func(context.Context) (int, error) {
				w.p.sim.atomically(func() { w.p.sim.broker.cancel(text(2)) })
				return 0, nil
			})
			return err
		}
		cmd.SetVal(1)
	case *redis.BoolCmd: // SISMEMBER asynq:queues
		cmd.SetVal(true)
	case *redis.StringCmd: // GET of a server
		cmd.SetVal(string(field(3, strings.TrimPrefix(text(1), "server:"))))
	case *redis.StringSliceCmd: // HVALS of a server's workers
		who := strings.TrimPrefix(text(1), "workers:")
		var list []string
		for _, id := range w.p.sim.running(who) {
			list = append(list, string(append(field(3, who), field(4, id)...)))
		}
		cmd.SetVal(list)
	case *redis.Cmd:
		return w.script(ctx, cmd, args)
	default:
		return errors.New("storm: the broker does not know " + cmd.String())
	}
	return nil
}

// script runs one of asynq's scripts, which it tells apart by their text.
func (w *wiring) script(ctx context.Context, cmd *redis.Cmd, args []any) error {
	if cmd.Name() == "evalsha" {
		return redistest.Refusal("NOSCRIPT No matching script")
	}
	source, _ := args[1].(string)
	n, _ := strconv.Atoi(keyCount(args[2]))
	key, _ := args[3].(string)
	argv := args[3+n:]
	b := w.p.sim.broker
	switch {
	case strings.Contains(source, `"pending_since", ARGV[3])`):
		msg, _ := argv[0].([]byte)
		info, err := w.p.sim.decode(msg, queueOf(key), idOf(key))
		if err != nil {
			return err
		}
		taken, err := call(ctx, w.p, "enqueue", key, func(context.Context) (found, error) {
			var ok bool
			w.p.sim.atomically(func() { ok = b.enqueue(key, msg, info) })
			return found(!ok), nil
		})
		if err == nil {
			cmd.SetVal(map[found]int64{false: 1, true: 0}[taken])
		}
		return err
	case strings.Contains(source, `ARGV[3] .. state, ARGV[1]`):
		seen, err := call(ctx, w.p, "look", key, func(context.Context) (lookup, error) {
			var l lookup
			w.p.sim.atomically(func() { l = b.lookup(key) })
			return l, nil
		})
		if err == nil && !seen.exists {
			err = redistest.Refusal("NOT FOUND")
		}
		if err == nil {
			cmd.SetVal([]any{string(seen.msg), seen.state, seen.at, ""})
		}
		return err
	case strings.Contains(source, "LREM"):
		op, put := "delete", b.remove
		if strings.Contains(source, `"state", "archived")`) {
			op, put = "archive", b.archive
		}
		n, err := call(ctx, w.p, op, key, func(context.Context) (int64, error) {
			var n int64
			w.p.sim.atomically(func() { n = put(key) })
			return n, nil
		})
		cmd.SetVal(n)
		return err
	case strings.Contains(source, "ZREMRANGEBYSCORE") && strings.HasPrefix(key, "asynq:"):
		prefix := "server:"
		if strings.Contains(key, "workers") {
			prefix = "workers:"
		}
		var keys []any
		w.p.sim.atomically(func() {
			for _, who := range b.alive() {
				keys = append(keys, prefix+who)
			}
		})
		cmd.SetVal(keys)
		return nil
	}
	return errors.New("storm: the broker does not know the script " + source)
}

func keyCount(v any) string {
	switch n := v.(type) {
	case int:
		return strconv.Itoa(n)
	case string:
		return n
	}
	return ""
}

// found says in a trace whether an ID was taken.
type found bool

// String is for traces.
func (f found) String() string {
	if f {
		return "the ID is taken"
	}
	return "queued"
}

// A lookup is the reply of GetTaskInfo.
type lookup struct {
	exists bool
	msg    []byte
	state  string
	at     int64
}

// String is for traces.
func (l lookup) String() string { return l.state }

func (b *broker) lookup(key string) lookup {
	b.tidy()
	t := b.tasks[key]
	if t == nil {
		return lookup{}
	}
	l := lookup{exists: true, state: t.state}
	if !t.stub { // the last value of a field counts
		l.msg = append(append([]byte(nil), t.msg...), number(6, uint64(t.retried))...)
		l.msg = append(l.msg, field(7, t.lastErr)...)
	}
	if t.state == retrying {
		l.at = t.processAt.Unix()
	}
	return l
}

// running returns the task IDs that a server says it runs.
func (s *sim) running(who string) []string {
	var ids []string
	s.atomically(func() {
		if server := s.broker.servers[who]; server != nil {
			ids = sorted(server.running)
		}
	})
	return ids
}

// field and number encode a field of a protocol buffer.
func field(n uint64, text string) []byte {
	b := binary.AppendUvarint(nil, n<<3|2)
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

func number(n, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, n<<3), v)
}

// decode reads a message as asynq stored it, by asking asynq's own inspector.
func (s *sim) decode(msg []byte, queue, id string) (*asynq.TaskInfo, error) {
	client := redis.NewClient(redistest.Options("127.0.0.1:1"))
	defer func() { _ = client.Close() }() // it never connected
	client.AddHook(&echo{msg})
	return asynq.NewInspectorFromRedisClient(client).GetTaskInfo(queue, id)
}

// echo answers every GetTaskInfo with one message.
type echo struct{ msg []byte }

// DialHook is never called.
func (e *echo) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook is never called.
func (e *echo) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook answers.
func (e *echo) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		switch cmd := cmd.(type) {
		case *redis.BoolCmd:
			cmd.SetVal(true)
		case *redis.Cmd:
			cmd.SetVal([]any{string(e.msg), pending, time.Now().Unix(), ""})
		}
		return nil
	}
}
