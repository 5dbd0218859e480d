package admincli

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// A progressBar shows on a terminal how far something is, how fast it goes and
// how long it will take. Elsewhere it shows nothing.
type progressBar struct {
	s       *session
	noun    string
	started time.Time
	shown   time.Time
	width   int
}

func (s *session) progress(noun string) *progressBar {
	return &progressBar{s: s, noun: noun, started: s.ownNow()}
}

const (
	progressCells = 20
	progressEvery = 100 * time.Millisecond
)

// show draws the bar, seldom enough to be read.
func (p *progressBar) show(done, total int) {
	now := p.s.ownNow()
	if !p.s.env.Terminal.Stderr || p.s.flags.quiet || total <= 0 || now.Sub(p.shown) < progressEvery && done < total {
		return
	}
	p.shown = now
	full := min(progressCells, done*progressCells/total)
	text := fmt.Sprintf("[%s%s] %d of %d %s", strings.Repeat("=", full), strings.Repeat(" ", progressCells-full), done, total, p.noun)
	if took := now.Sub(p.started); took >= time.Second && done > 0 {
		left := time.Duration(float64(took) / float64(done) * float64(total-done))
		text += fmt.Sprintf(", %.0f/s, %s left", float64(done)/took.Seconds(), span(left))
	}
	pad := max(0, p.width-len(text))
	p.width = len(text)
	fmt.Fprintf(p.s.err, "\r%s%s", text, strings.Repeat(" ", pad))
}

// end takes the bar away. Another show draws it again.
func (p *progressBar) end() {
	if p.width > 0 {
		fmt.Fprintf(p.s.err, "\r%s\r", strings.Repeat(" ", p.width))
		p.width, p.shown = 0, time.Time{}
	}
}

// commandLine is the command line of this run, for a shell.
func (s *session) commandLine() string {
	words := []string{"admin"}
	for _, arg := range s.args {
		words = append(words, shellWord(arg))
	}
	return strings.Join(words, " ")
}

// plainWord needs no quotes in any shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
