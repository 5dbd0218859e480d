package top

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
)

// A Terminal is where Show draws.
type Terminal struct {
	In      io.Reader
	Out     io.Writer
	Environ []string // as of os.Environ; decides about colors
	// Width and Height stand for the size of what is no terminal; 0 asks it.
	Width, Height int
}

// Show shows the model until the user quits or ctx ends, and reads the source at
// every interval. It returns nil when the user quits, and ctx's error when that
// ended.
func Show(ctx context.Context, m *Model, source Source, interval time.Duration, terminal Terminal) error {
	p := &program{ctx: ctx, model: m, source: source, interval: interval}
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(terminal.In), tea.WithOutput(terminal.Out),
		tea.WithEnvironment(terminal.Environ), tea.WithoutSignalHandler()}
	if terminal.Width > 0 && terminal.Height > 0 {
		options = append(options, tea.WithWindowSize(terminal.Width, terminal.Height))
	}
	_, err := tea.NewProgram(p, options...).Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, tea.ErrInterrupted) {
		return nil // ctrl+c is a key here
	}
	return err
}

// A program drives a model by messages.
type program struct {
	ctx      context.Context
	model    *Model
	source   Source
	interval time.Duration
}

type (
	readMsg struct {
		snapshot Snapshot
		problem  string
		at       time.Time
	}
	tickMsg time.Time
	doneMsg string
	timeMsg struct{} // it is time to read again
)

// Init starts reading and ticking.
func (p *program) Init() tea.Cmd { return tea.Batch(p.read, tick()) }

// tick moves countdowns.
func tick() tea.Cmd {
	return tea.Tick(250*time.Millisecond, func(t time.Time) tea.Msg { return tickMsg(t) })
}

func (p *program) read() tea.Msg {
	s, err := p.source.Read(p.ctx)
	if err != nil {
		return readMsg{problem: err.Error(), at: time.Now()}
	}
	return readMsg{snapshot: s, at: time.Now()}
}

// Update handles one message.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.model.Resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		return p, p.request(p.model.Key(msg.String()))
	case readMsg:
		p.model.Set(msg.snapshot, msg.problem, msg.at)
		return p, tea.Tick(p.interval, func(time.Time) tea.Msg { return timeMsg{} })
	case timeMsg:
		return p, p.read
	case tickMsg:
		p.model.Tick(time.Time(msg))
		return p, tick()
	case doneMsg:
		p.model.Done(string(msg))
	}
	return p, nil
}

// request does what a key asks for.
func (p *program) request(r Request) tea.Cmd {
	switch {
	case r.Quit:
		return tea.Quit
	case r.Act == "":
		return nil
	}
	return func() tea.Msg {
		text, err := p.source.Act(p.ctx, r.Act, r.Schedule)
		if err != nil {
			return doneMsg("failed: " + err.Error())
		}
		return doneMsg(text)
	}
}

// View renders a frame.
func (p *program) View() tea.View {
	v := tea.NewView(p.model.Frame())
	v.AltScreen = true
	return v
}
