package storm

import (
	"context"
	"errors"
	"sync"
	"time"
)

// What a process is told when a command goes wrong.
var (
	errDead    = errors.New("storm: the process is dead")
	errRefused = errors.New("storm: connection refused")
	errNoReply = errors.New("storm: i/o timeout")
)

// wire is what may happen to a command on its way, each with a probability.
type wire struct {
	refuse float64 // it never arrives
	lost   float64 // it takes effect, the reply is lost
	twice  float64 // it takes effect twice, the second reply arrives
	echo   float64 // it takes effect at once, and again up to half a minute later
	late   float64 // the sender gives up; it takes effect up to half a minute later
}

// hazard is what may happen to a process at each of its commands, before it is
// sent or before its reply is read.
type hazard struct {
	pause, crash float64       // probabilities
	longest      time.Duration // of a pause
}

// A process is one incarnation of a worker. All its commands pass its gate.
type process struct {
	sim    *sim
	id     string
	hazard hazard
	ctx    context.Context // ends with the process
	end    context.CancelFunc
	over   chan struct{} // closed by the crash

	mu     sync.Mutex
	dead   bool
	paused time.Time // until then
}

func (s *sim) process(id string, h hazard) *process {
	p := &process{sim: s, id: id, hazard: h, over: make(chan struct{})}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// kill ends the process as kill -9 does: whatever its goroutines still do
// reaches nobody.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return
	}
	p.dead = true
	close(p.over)
	p.end()
	p.sim.note(p.id, "crash", "", "")
	p.sim.atomically(func() {
		p.sim.count("crash")
		p.sim.witness.disturb(p.id, time.Now())
		p.sim.broker.left(p.id)
	})
}

// stop lets the process stand still for a while, from its next command on.
func (p *process) stop(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.paused) && !p.dead {
		p.paused = until
		p.sim.note(p.id, "pause", "", d.String())
		p.sim.atomically(func() {
			p.sim.count("pause")
			p.sim.witness.disturb(p.id, until)
		})
	}
}

// wait lets d pass, and the pause of the process with it. Ctx ends a wait but
// not a pause. The name says what waits.
func (p *process) wait(ctx context.Context, name string, d time.Duration) error {
	name = p.id + " " + name
	for {
		if err := p.sim.moments.wait(ctx, p.over, name, d); err != nil {
			return err
		}
		p.mu.Lock()
		dead, left := p.dead, time.Until(p.paused)
		p.mu.Unlock()
		switch {
		case dead:
			return errDead
		case left <= 0:
			return nil
		}
		// What stood still together does not go on at the same instant.
		d, ctx = left+roll(p.sim.seed, p.id, "wake").between(0, time.Millisecond), context.WithoutCancel(ctx)
	}
}

// endanger pauses or kills the process, perhaps.
func (p *process) endanger(d *dice, f *faults) {
	switch {
	case !f.on:
	case d.chance(p.hazard.crash):
		p.kill()
	case d.chance(p.hazard.pause):
		p.stop(d.between(time.Second, p.hazard.longest))
	}
}

// call sends a command through the gate of the process. Do is the command
// itself, and takes effect at one instant.
func call[T any](ctx context.Context, p *process, op, key string, do func(context.Context) (T, error)) (T, error) {
	var none T
	d, f := roll(p.sim.seed, p.id, op, key), p.sim.faults()
	name := op + " " + key
	// What woke together, as the loops of a process that starts, may draw a crash
	// and a pause. An instant of its own for each makes certain which comes first.
	if err := p.wait(ctx, name, d.between(time.Nanosecond, 50*time.Microsecond)); err != nil {
		return none, err
	}
	p.endanger(d, f)
	if err := p.wait(ctx, name, d.between(50*time.Microsecond, 3*time.Millisecond)); err != nil {
		return none, err
	}
	effect := func(how string) (T, error) {
		v, err := do(context.WithoutCancel(ctx))
		p.sim.note(p.id, op+how, key, outcome(v, err))
		return v, err
	}
	later := func(how string) {
		after := d.between(10*time.Millisecond, 30*time.Second)
		p.sim.stray.Go(func() {
			p.sim.pass(p.id+" "+name+how, after)
			_, _ = effect(how) // nobody waits for it
		})
	}
	switch {
	case !f.on:
	case d.chance(f.refuse):
		p.sim.happened("refused")
		p.sim.note(p.id, op+" refused", key, "")
		return none, join(p.wait(ctx, name, d.between(time.Millisecond, 50*time.Millisecond)), errRefused)
	case d.chance(f.late):
		p.sim.happened("delayed command")
		later(" (late)")
		return none, join(p.wait(ctx, name, d.between(100*time.Millisecond, 3*time.Second)), errNoReply)
	case d.chance(f.twice):
		p.sim.happened("duplicated command")
		_, _ = effect(" (first of two)") // its reply is lost with the connection
		if err := p.wait(ctx, name, d.between(time.Millisecond, 100*time.Millisecond)); err != nil {
			return none, err
		}
		return answer(ctx, p, name, d, f, effect, " (again)")
	case d.chance(f.echo):
		p.sim.happened("echoed command")
		later(" (echo)")
	case d.chance(f.lost):
		p.sim.happened("lost reply")
		_, _ = effect(" (reply lost)")
		p.endanger(d, f)
		return none, join(p.wait(ctx, name, d.between(100*time.Millisecond, 3*time.Second)), errNoReply)
	}
	return answer(ctx, p, name, d, f, effect, "")
}

// answer runs the command and brings its reply back.
func answer[T any](ctx context.Context, p *process, name string, d *dice, f *faults, effect func(string) (T, error), how string) (T, error) {
	v, err := effect(how)
	p.endanger(d, f)
	if err := p.wait(ctx, name, d.between(50*time.Microsecond, 3*time.Millisecond)); err != nil {
		var none T
		return none, err
	}
	return v, err
}

// join prefers the error of the wait.
func join(waited, otherwise error) error {
	if waited != nil {
		return waited
	}
	return otherwise
}
