package storetest_test

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/internal/storetest"
	"github.com/belfryhq/belfry/pkg/claim"
	"github.com/belfryhq/belfry/pkg/redisstore"
)

// A leaseCall is one call to a lease, with the time that the store was told.
type leaseCall struct {
	verb, lease, owner, nonce string
	now, ttl                  int64 // ms
	token                     claim.Token
}

// A leaseReply is its answer. When it is lost, the call may or may not have
// happened.
type leaseReply struct {
	lost  bool
	ok    bool
	token claim.Token
	until int64
}

// leaseState is what the model knows of a lease.
type leaseState struct {
	owner, nonce string
	token        claim.Token
	until        int64
}

// apply is the contract of claim.Leases as a function.
func (s leaseState) apply(c leaseCall) (leaseState, leaseReply) {
	live := s.until > c.now
	switch c.verb {
	case "acquire":
		if live {
			if s.owner != c.owner || s.nonce != c.nonce {
				return s, leaseReply{}
			}
			return s, leaseReply{ok: true, token: s.token, until: s.until}
		}
		s = leaseState{c.owner, c.nonce, max(s.token+1, claim.Token(c.now*1000)), c.now + c.ttl}
		return s, leaseReply{ok: true, token: s.token, until: s.until}
	case "renew":
		if !live || s.token != c.token {
			return s, leaseReply{}
		}
		s.until = c.now + c.ttl
		return s, leaseReply{ok: true, token: s.token, until: s.until}
	default:
		if !live || s.token != c.token {
			return s, leaseReply{}
		}
		s.until = 0
		return s, leaseReply{ok: true}
	}
}

// leaseModel checks histories of several leases, each on its own.
var leaseModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byName := map[string][]porcupine.Operation{}
		for _, op := range history {
			name := op.Input.(leaseCall).lease
			byName[name] = append(byName[name], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byName {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return leaseState{} },
	Step: func(state, input, output any) (bool, any) {
		got := output.(leaseReply)
		next, want := state.(leaseState).apply(input.(leaseCall))
		return got.lost || got == want, next
	},
}

// A cutter is a connection that is cut now and then: before a command is sent,
// or when its reply has come.
type cutter struct {
	net.Conn
	armed *atomic.Bool
}

const (
	cutsBefore = 0.05
	cutsAfter  = 0.15
)

func (c *cutter) Write(p []byte) (int, error) {
	if c.armed.Load() && rand.Float64() < cutsBefore {
		return 0, errors.Join(c.Close(), io.ErrClosedPipe)
	}
	return c.Conn.Write(p)
}

func (c *cutter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.armed.Load() && rand.Float64() < cutsAfter {
		return 0, errors.Join(c.Close(), io.ErrUnexpectedEOF)
	}
	return n, err
}

// A leaseClient is one caller with a clock that the test sets.
type leaseClient struct {
	leases *redisstore.Leases
	now    atomic.Int64 // ms
	armed  atomic.Bool
	held   map[string]claim.Lease
	nonce  int
}

func newLeaseClient(t *testing.T, addr, namespace string) *leaseClient {
	t.Helper()
	c := &leaseClient{held: map[string]claim.Lease{}}
	options := redistest.Options(addr)
	options.MaxRetries = -1 // a call is sent once, so that the history says what was sent
	options.PoolSize = 1
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &cutter{Conn: conn, armed: &c.armed}, err
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	store, err := redisstore.New(client, redisstore.Options{Namespace: namespace,
		Now: func() time.Time { return time.UnixMilli(c.now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	c.leases = store.Leases()
	return c
}

// act makes one random call and returns it with its answer.
func (c *leaseClient) act(ctx context.Context, owner string, clock *atomic.Int64) porcupine.Operation {
	name := "lease-" + strconv.Itoa(rand.IntN(2))
	in := leaseCall{lease: name, owner: owner, now: clock.Add(rand.Int64N(40)), ttl: 200}
	c.now.Store(in.now)
	held, holds := c.held[name]
	in.token = held.Token
	c.armed.Store(rand.IntN(3) == 0)
	var lease claim.Lease
	var ok bool
	var err error
	began := time.Now().UnixNano()
	switch verb := rand.IntN(4); {
	case holds && verb == 0:
		in.verb = "release"
		ok, err = c.leases.Release(ctx, held)
	case holds && verb < 3:
		in.verb = "renew"
		lease, ok, err = c.leases.Renew(ctx, held, 200*time.Millisecond)
	default:
		in.verb = "acquire"
		if rand.IntN(3) > 0 { // otherwise the last call is sent again
			c.nonce++
		}
		in.nonce = strconv.Itoa(c.nonce)
		lease, ok, err = c.leases.Acquire(ctx, claim.LeaseRequest{Name: name, Owner: owner, Nonce: in.nonce, TTL: 200 * time.Millisecond})
	}
	op := porcupine.Operation{Input: in, Call: began, Return: time.Now().UnixNano()}
	if err != nil {
		op.Output, op.Return = leaseReply{lost: true}, math.MaxInt64
		return op
	}
	out := leaseReply{ok: ok}
	if ok && in.verb != "release" {
		out.token, out.until = lease.Token, lease.Until.UnixMilli()
		c.held[name] = lease
	}
	op.Output = out
	return op
}

// leaseHistory lets callers act at the same time on two leases.
func leaseHistory(t *testing.T, addr string, callers, calls int) []porcupine.Operation {
	t.Helper()
	namespace := redistest.Namespace()
	var clock atomic.Int64
	clock.Store(storetest.Epoch.UnixMilli())
	histories := make([][]porcupine.Operation, callers)
	var group sync.WaitGroup
	for i := range callers {
		c := newLeaseClient(t, addr, namespace)
		group.Go(func() {
			for range calls {
				op := c.act(t.Context(), "w"+strconv.Itoa(i), &clock)
				op.ClientId = i
				histories[i] = append(histories[i], op)
			}
		})
	}
	group.Wait()
	var all []porcupine.Operation
	for _, h := range histories {
		all = append(all, h...)
	}
	return all
}

const (
	leaseHistories = 40
	checkTime      = 20 * time.Second
)

func TestLeaseHistoriesAreLinearizable(t *testing.T) {
	client, ok := redistest.Backends()[1].Dial(t).(*redis.Client)
	if !ok {
		t.Fatal("the second backend is not a single server")
	}
	lost, granted := 0, map[claim.Token]bool{}
	for range leaseHistories {
		history := leaseHistory(t, client.Options().Addr, 5, 50)
		if got := porcupine.CheckOperationsTimeout(leaseModel, history, checkTime); got != porcupine.Ok {
			t.Fatalf("the history is %s:\n%+v", got, history)
		}
		for _, op := range history {
			out := op.Output.(leaseReply)
			if out.lost {
				lost++
			}
			if out.token != 0 {
				granted[out.token] = true
			}
		}
	}
	if lost < leaseHistories || len(granted) < 10*leaseHistories {
		t.Errorf("%d replies were lost and %d leases granted: the histories show too little", lost, len(granted))
	}
	t.Logf("%d histories of 250 calls: %d replies lost, %d grants", leaseHistories, lost, len(granted))
}

// TestTheLeaseModelSeesFaults shows that the check can fail.
func TestTheLeaseModelSeesFaults(t *testing.T) {
	acquire := func(owner string, at int64, out leaseReply) porcupine.Operation {
		return porcupine.Operation{Input: leaseCall{verb: "acquire", lease: "a", owner: owner, nonce: owner, now: 1000 + at, ttl: 200}, Output: out, Call: at, Return: at + 1}
	}
	first := acquire("w1", 10, leaseReply{ok: true, token: 1_010_000, until: 1210})
	for name, second := range map[string]porcupine.Operation{
		"two owners at once":          acquire("w2", 20, leaseReply{ok: true, token: 1_020_000, until: 1220}),
		"the same token twice":        acquire("w2", 300, leaseReply{ok: true, token: 1_010_000, until: 1500}),
		"a free lease that is denied": acquire("w2", 300, leaseReply{}),
		"a lost lease that is revived": {Input: leaseCall{verb: "renew", lease: "a", token: 1_010_000, now: 1300, ttl: 200},
			Output: leaseReply{ok: true, token: 1_010_000, until: 1500}, Call: 300, Return: 301},
	} {
		if porcupine.CheckOperations(leaseModel, []porcupine.Operation{first, second}) {
			t.Errorf("%s: the history passes", name)
		}
	}
	if !porcupine.CheckOperations(leaseModel, []porcupine.Operation{first, acquire("w2", 300, leaseReply{ok: true, token: 1_300_000, until: 1500})}) {
		t.Error("a right history does not pass")
	}
}
