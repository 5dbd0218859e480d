package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
)

// parseCronList reads one field, in upper case, as a list of items, at the
// start of room if they fit.
func parseCronList(f *cronField, text string, id ID, room []cronItem) ([]cronItem, error) {
	items := room[:0]
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			return nil, f.refuse(text, "remove the comma that nothing follows or precedes")
		}
		item, err := parseCronItem(f, word, id)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func parseCronItem(f *cronField, word string, id ID) (cronItem, error) {
	switch {
	case word == "*", word == "?" && f.max != maxCronYear:
		return cronItem{star: true, from: f.min, to: f.last}, nil
	case word[0] == '+' || word[0] == '-':
		return cronItem{}, f.refuse(word, f.signHint(word))
	case word[0] == 'H':
		return parseHash(f, word, id)
	case f.days == 'm' && (word[0] == 'L' || strings.HasSuffix(word, "W")):
		return parseDayForm(f, word)
	case f.days == 'w' && (strings.HasSuffix(word, "L") || strings.Contains(word, "#")):
		return parseWeekdayForm(f, word)
	}
	return parseCronRange(f, word)
}

// parseCronRange reads a, a-b, */n, a/n and a-b/n.
func parseCronRange(f *cronField, word string) (cronItem, error) {
	body, stepText, stepped := strings.Cut(word, "/")
	item := cronItem{from: f.min, to: f.last}
	if stepped {
		step, err := f.step(word, stepText)
		if err != nil {
			return item, err
		}
		item.step = step
	}
	if body == "*" {
		item.star = true
		return item, nil
	}
	first, lastText, ranged := strings.Cut(body, "-")
	from, ok := f.value(first)
	if !ok {
		return item, f.refuse(word, f.valueHint(first))
	}
	item.from = from
	switch {
	case f.days == 'w' && from == 7 && !ranged && !stepped:
		item.from, item.to = 0, 0
	case ranged:
		to, ok := f.value(lastText)
		if !ok {
			return item, f.refuse(word, f.valueHint(lastText))
		}
		item.to, item.ranged = to, true
		if f.max == maxCronYear && to < from {
			return item, f.refuse(word, "years do not wrap: "+lastText+"-"+first)
		}
	case !stepped:
		item.to = from
	case f.days == 'w' && from == 7:
		return item, f.refuse(word, "start at 0: 0/"+stepText)
	default:
		item.open = true
	}
	return item, nil
}

// step reads what stands behind a slash.
func (f *cronField) step(word, text string) (int, error) {
	step, ok := cronNumber(text)
	if !ok {
		return 0, f.refuse(word, "behind / stands a whole number")
	}
	if step < 1 || step > f.maxStep() {
		return 0, &FieldError{Field: "cron " + f.name, Value: word,
			Allowed: "a step from 1 to " + strconv.Itoa(f.maxStep()), Hint: f.stepHint(step)}
	}
	return step, nil
}

// cronNumber reads digits. A number too long for any field is as good as none.
func cronNumber(text string) (int, bool) {
	if text == "" || len(text) > 9 {
		return 0, false
	}
	n := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n, true
}

// value reads a number in the field's range or a name.
func (f *cronField) value(text string) (int, bool) {
	if n, ok := cronNumber(text); ok {
		return n, n >= f.min && n <= f.max
	}
	return f.named(text)
}

// parseDayForm reads L, L-n, LW, L-nW and nW.
func parseDayForm(f *cronField, word string) (cronItem, error) {
	item := cronItem{kind: itemNearest}
	body, nearest := strings.CutSuffix(word, "W")
	if rest, last := strings.CutPrefix(body, "L"); last {
		item.kind = itemLast
		if nearest {
			item.kind = itemNearestLast
		}
		if rest == "" {
			return item, nil
		}
		offset, ok := cronNumber(strings.TrimPrefix(rest, "-"))
		if rest[0] != '-' || !ok || offset > f.max-1 {
			return item, f.refuse(word, "L is the last day, L-3 the third before it, LW the last weekday; n in L-n is 0 to 30")
		}
		item.from = offset
		return item, nil
	}
	day, ok := cronNumber(body)
	if !ok || day < f.min || day > f.max {
		return item, f.refuse(word, "15W is the weekday nearest to the 15th; W takes one day from 1 to 31, no range and no step")
	}
	item.from = day
	return item, nil
}

// parseWeekdayForm reads nL, name#n, name#L and a-b#n.
func parseWeekdayForm(f *cronField, word string) (cronItem, error) {
	item := cronItem{kind: itemNth}
	body, which, sharp := strings.Cut(word, "#")
	switch {
	case !sharp:
		body = strings.TrimSuffix(word, "L")
		if body == "" {
			return item, f.refuse(word, "FRIL is the last Friday of the month; the last day of the month is L in day-of-month")
		}
		if strings.Contains(body, "-") {
			return item, f.refuse(word, "L follows one day; for several write a list, or "+body+"#L")
		}
	case which == "L":
	case len(which) == 1 && which[0] >= '1' && which[0] <= '5':
		item.nth = int(which[0] - '0')
	default:
		return item, f.refuse(word, "behind # stands 1 to 5, or L for the last one of the month")
	}
	first, last, ranged := strings.Cut(body, "-")
	if !ranged {
		last = first
	}
	var ok bool
	if item.from, ok = f.value(first); !ok {
		return item, f.refuse(word, f.valueHint(first))
	}
	if item.to, ok = f.value(last); !ok {
		return item, f.refuse(word, f.valueHint(last))
	}
	if item.ranged = ranged; !ranged {
		item.from %= 7
		item.to = item.from
	}
	return item, nil
}

// parseHash reads H, H(a-b), H/n and H(a-b)/n and replaces it by the numbers
// that it stands for.
func parseHash(f *cronField, word string, id ID) (cronItem, error) {
	if f.hashMax == 0 {
		return cronItem{}, f.refuse(word, "H has no meaning in "+f.name)
	}
	body, stepText, stepped := strings.Cut(word, "/")
	item := cronItem{from: f.min, to: f.hashMax}
	if body != "H" {
		inside, ok := strings.CutPrefix(body, "H(")
		inside, closed := strings.CutSuffix(inside, ")")
		first, last, ranged := strings.Cut(inside, "-")
		if !ok || !closed || !ranged {
			return item, f.refuse(word, "write H, H(1-5), H/15 or H(0-29)/10")
		}
		if item.from, ok = f.value(first); !ok {
			return item, f.refuse(word, f.valueHint(first))
		}
		if item.to, ok = f.value(last); !ok {
			return item, f.refuse(word, f.valueHint(last))
		}
	}
	if stepped {
		step, err := f.step(word, stepText)
		if err != nil {
			return item, err
		}
		item.step = step
	}
	if id == "" {
		return item, f.refuse(word, "H is a hash of the schedule's ID and has no meaning without one")
	}
	return item.hashed(f, id), nil
}

// hashed puts the hash in place of a range: one value of it, or with a step
// the phase.
func (i cronItem) hashed(f *cronField, id ID) cronItem {
	var values []int
	whole := i
	whole.step = 0
	whole.each(f, func(value int) { values = append(values, value) })
	span := len(values)
	if i.step > 0 {
		span = min(span, i.step)
	}
	sum := sha256.Sum256([]byte(string(id) + "\x00" + f.name))
	i.from = values[binary.BigEndian.Uint64(sum[:8])%uint64(span)]
	i.ranged = i.step > 0
	if !i.ranged {
		i.to = i.from
	}
	return i
}

// appendTo writes the item in its canonical form.
func (i cronItem) appendTo(b []byte) []byte {
	switch i.kind {
	case itemLast, itemNearestLast:
		b = append(b, 'L')
		if i.from > 0 {
			b = strconv.AppendInt(append(b, '-'), int64(i.from), 10)
		}
		if i.kind == itemNearestLast {
			b = append(b, 'W')
		}
		return b
	case itemNearest:
		return append(strconv.AppendInt(b, int64(i.from), 10), 'W')
	}
	if i.star {
		b = append(b, '*')
	} else {
		b = strconv.AppendInt(b, int64(i.from), 10)
		if i.ranged {
			b = strconv.AppendInt(append(b, '-'), int64(i.to), 10)
		}
	}
	switch {
	case i.kind == itemNth && i.nth == 0 && !i.ranged:
		b = append(b, 'L')
	case i.kind == itemNth && i.nth == 0:
		b = append(b, "#L"...)
	case i.kind == itemNth:
		b = strconv.AppendInt(append(b, '#'), int64(i.nth), 10)
	case i.step > 0:
		b = strconv.AppendInt(append(b, '/'), int64(i.step), 10)
	}
	return b
}
