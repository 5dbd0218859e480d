package admincli

import (
	"io"
	"strings"
)

// columnGap stands between columns.
const columnGap = "  "

// maxCell bounds a cell, so that one long text does not push the others out
// of sight; -o json shows it whole.
const maxCell = 100

// A table writes aligned columns without borders. Widths are fixed by the
// first flush, so that a long list can be written in pages.
type table struct {
	header []string
	widths []int
	rows   [][]cell
	begun  bool
	folds  [][]int // columns of each line of a row that the terminal is too narrow for; nil: one line
}

// A cell is a text and how it is painted.
type cell struct {
	text  string
	color color
}

func newTable(header ...string) *table { return &table{header: header} }

func (t *table) add(texts ...string) {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i] = cell{text: text}
	}
	t.addCells(row...)
}

func (t *table) addCells(row ...cell) {
	for i := range row {
		row[i].text = clip(visible(row[i].text), maxCell)
	}
	t.rows = append(t.rows, row)
}

// flush writes the rows added so far.
func (t *table) flush(w io.Writer, painted bool) {
	rows := t.rows
	if !t.begun && len(t.header) > 0 {
		head := make([]cell, len(t.header))
		for i, text := range t.header {
			head[i] = cell{text: text}
		}
		rows = append([][]cell{head}, rows...)
	}
	if !t.begun {
		t.measure(rows)
		t.begun = true
		if out, ok := w.(*stickyWriter); ok && out.columns > 0 {
			t.fold(out.columns)
		}
	}
	var b strings.Builder
	for _, row := range rows {
		if t.folds == nil {
			writeRow(&b, row, t.widths, painted)
			continue
		}
		t.writeFolded(&b, row, painted)
	}
	_, _ = io.WriteString(w, b.String()) // the writer keeps its own error
	t.rows = nil
}

func (t *table) measure(rows [][]cell) {
	for _, row := range rows {
		for i, c := range row {
			if i >= len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], width(c.text))
		}
	}
}

func writeRow(b *strings.Builder, row []cell, widths []int, painted bool) {
	last := len(row) - 1
	for last > 0 && row[last].text == "" {
		last--
	}
	for i, c := range row[:last+1] {
		b.WriteString(paint(c.text, c.color, painted))
		if i < last {
			if pad := widths[i] - width(c.text); pad > 0 {
				b.WriteString(strings.Repeat(" ", pad))
			}
			b.WriteString(columnGap)
		}
	}
	b.WriteByte('\n')
}

// Of a table that is wider than the terminal, each row takes several lines, which
// begin indented: a terminal that wraps puts columns where no eye finds them.
const (
	foldIndent = "  "
	// foldCell bounds a cell between the first column, which names the row, and
	// the last, which is moved to a line of its own rather than cut below it.
	foldCell = 40
)

// fold lays the columns out for a terminal of so many.
func (t *table) fold(columns int) {
	total := len(columnGap) * (len(t.widths) - 1)
	for _, w := range t.widths {
		total += w
	}
	if total <= columns || columns < foldCell {
		return
	}
	var line []int
	used, last := 0, len(t.widths)-1
	for i, w := range t.widths {
		if i > 0 && i < last {
			w = min(w, foldCell)
		}
		need, gap := w, len(columnGap)
		if i == last {
			need = min(w, foldCell)
		}
		if len(line) == 0 {
			gap = 0
		} else if used+gap+need > columns {
			t.folds, line, used, gap = append(t.folds, line), nil, len(foldIndent), 0
		}
		t.widths[i] = min(w, columns-used-gap)
		line, used = append(line, i), used+gap+t.widths[i]
	}
	t.folds = append(t.folds, line)
}

// writeFolded writes the lines of a row that hold anything.
func (t *table) writeFolded(b *strings.Builder, row []cell, painted bool) {
	for n, line := range t.folds {
		var cells []cell
		var widths []int
		empty := true
		for _, i := range line {
			if i < len(row) {
				cells, widths = append(cells, cell{clip(row[i].text, t.widths[i]), row[i].color}), append(widths, t.widths[i])
				empty = empty && row[i].text == ""
			}
		}
		if empty {
			continue
		}
		if n > 0 {
			b.WriteString(foldIndent)
		}
		writeRow(b, cells, widths, painted)
	}
}

// A color is an SGR parameter; "" leaves text as it is.
type color string

const (
	green  color = "32"
	yellow color = "33"
	red    color = "31"
	dim    color = "2"
)

func paint(text string, c color, painted bool) string {
	if !painted || c == "" || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
