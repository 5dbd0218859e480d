package queue

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxErrorText bounds the error text that is stored, in bytes.
const maxErrorText = 1 << 10

// clip makes text fit for storage and display: valid UTF-8, no control
// characters, white space folded into blanks, at most limit bytes.
func clip(text string, limit int) string {
	if len(text) > 4*limit { // so that the work is bounded, too
		text = text[:4*limit]
	}
	var b strings.Builder
	blank := false
	for _, r := range text {
		if unicode.IsSpace(r) {
			blank = b.Len() > 0
			continue
		}
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			r = '�'
		}
		size := utf8.RuneLen(r)
		if blank {
			size++
		}
		if b.Len()+size > limit {
			return cut(b.String(), limit)
		}
		if blank {
			b.WriteByte(' ')
			blank = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// cut ends text with an ellipsis within limit bytes.
func cut(text string, limit int) string {
	const ellipsis = "…"
	for len(text)+len(ellipsis) > limit && text != "" {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text + ellipsis
}
