package main

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The size of a character and of the frame around the screen, in pixels.
const (
	charWidth  = 8.4
	lineHeight = 18
	margin     = 14
)

// sgr matches how text is painted.
var sgr = regexp.MustCompile("\x1b\\[([0-9;]*)m")

var svgColors = map[int]string{31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 90: "#8b949e"}

// A style is how text is painted at present.
type style struct {
	color              string
	bold, dim, inverse bool
}

// apply obeys the parameters of one sequence.
func (s *style) apply(parameters string) {
	for part := range strings.SplitSeq(parameters, ";") {
		n, _ := strconv.Atoi(part) // empty is 0
		switch {
		case n == 0:
			*s = style{}
		case n == 1:
			s.bold = true
		case n == 2:
			s.dim = true
		case n == 7:
			s.inverse = true
		case n == 22:
			s.bold, s.dim = false, false
		case n == 27:
			s.inverse = false
		case n == 39:
			s.color = ""
		case svgColors[n] != "":
			s.color = svgColors[n]
		}
	}
}

// drawSVG draws the scenes one after the other, each for some seconds. A viewer
// that does not animate shows the first.
func drawSVG(all []frame) []byte {
	var b bytes.Buffer
	width, height := 2*margin+columns*charWidth, 2*margin+rows*lineHeight
	const each = 4 // seconds
	total := each * len(all)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" xml:space="preserve">`+"\n", width, height)
	b.WriteString("<title>admin against a demo worker</title>\n<style>\n")
	fmt.Fprintf(&b, "text { white-space: pre; fill: #c9d1d9 }\n.s { visibility: hidden; animation: show %ds step-end infinite }\n.s0 { visibility: visible }\n", total)
	fmt.Fprintf(&b, "@keyframes show { 0%% { visibility: visible } %.3f%% { visibility: hidden } }\n</style>\n", 100/float64(len(all)))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>`+"\n")
	for i, f := range all {
		fmt.Fprintf(&b, `<g class="s s%d" style="animation-delay: %ds">`+"\n", i, each*i)
		for row, line := range f.lines {
			drawLine(&b, row, line)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawLine draws each piece of a line that is painted alike.
func drawLine(b *bytes.Buffer, row int, line string) {
	var s style
	column := 0
	marks := sgr.FindAllStringSubmatch(line, -1)
	for i, text := range sgr.Split(line, -1) {
		if i > 0 {
			s.apply(marks[i-1][1])
		}
		n := utf8.RuneCountInString(text)
		if strings.TrimSpace(text) != "" || s.inverse && text != "" {
			drawPiece(b, row, column, n, text, s)
		}
		column += n
	}
}

func drawPiece(b *bytes.Buffer, row, column, n int, text string, s style) {
	x, y := margin+float64(column)*charWidth, margin+row*lineHeight
	attributes := ""
	if s.inverse {
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#c9d1d9"/>`+"\n", x, y, float64(n)*charWidth, lineHeight)
		s.color = "#0d1117"
	}
	if s.color != "" {
		attributes += ` style="fill: ` + s.color + `"`
	}
	if s.bold {
		attributes += ` font-weight="bold"`
	}
	if s.dim {
		attributes += ` opacity="0.6"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n", x, y+lineHeight-4, float64(n)*charWidth, attributes, html.EscapeString(text))
}
