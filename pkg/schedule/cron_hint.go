package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// refuse builds the error for a value that the field does not take.
func (f *cronField) refuse(value, hint string) error {
	return &FieldError{Field: "cron " + f.name, Value: value, Allowed: f.allowed(), Hint: hint}
}

// allowed says in one line what the field takes.
func (f *cronField) allowed() string {
	text := strconv.Itoa(f.min) + " to " + strconv.Itoa(f.max)
	switch {
	case f.days == 'm':
		text += ", L, L-n, LW, nW"
	case f.days == 'w':
		text += " or SUN to SAT, FRIL, FRI#2"
	case f.names != "":
		text += " or JAN to DEC"
	}
	text += "; *, lists, ranges and steps"
	if f.hashMax > 0 {
		text += "; H"
	}
	return text
}

func (f *cronField) signHint(word string) string {
	switch {
	case word[0] == '+' && f.days == 'w':
		return "+ stands once, in front of the whole field"
	case word[0] == '-' && f.days == 'm':
		return "the last day is L, the day before it L-1"
	}
	return "numbers have no sign"
}

// valueHint guesses what was meant by a value that the field does not take.
func (f *cronField) valueHint(text string) string {
	if n, ok := cronNumber(text); ok {
		switch {
		case f.name == "hour" && n == 24:
			return "midnight is hour 0 of the next day"
		case n == 60 && f.max == 59:
			return "0 is the first " + f.name
		case f.days == 'm' && n == 0:
			return "the first day is 1, the last day is L"
		case f.name == "month" && n == 0:
			return "January is 1"
		case f.days == 'w' && n >= minCronYear:
			return "a year needs all seven fields, seconds first and the year last"
		}
		return ""
	}
	if guess := f.nearestName(text); guess != "" {
		return "did you mean " + guess + "?"
	}
	return ""
}

// nearestName returns the one name that the word is a slip of: it begins with
// it, or one letter of three differs and no other name is as near.
func (f *cronField) nearestName(word string) string {
	found := ""
	for i := 0; i+3 < len(f.names); i += 4 {
		name := f.names[i : i+3]
		if strings.HasPrefix(word, name) {
			return name
		}
		same := 0
		for j := range min(len(word), 3) {
			if word[j] == name[j] {
				same++
			}
		}
		if same == 2 && len(word) == 3 {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}

// stepHint tells how to write what a step beyond the field was meant to say.
func (f *cronField) stepHint(step int) string {
	unit := map[string]string{"second": "s", "minute": "m", "hour": "h"}[f.name]
	perNext := f.max + 1
	switch {
	case step == 0:
		return "*/1 is every " + f.name
	case unit == "" || step > 100_000:
		return ""
	case f.name != "hour" && step%perNext == 0 && step/perNext <= cronFields[fieldHour].max:
		next := map[string]string{"second": "minute", "minute": "hour"}[f.name]
		if step == perNext {
			return "every " + next + " is * in the " + next + " field, with a fixed " + f.name
		}
		return fmt.Sprintf("every %d %ss is */%d in the %s field, with a fixed %s", step/perNext, next, step/perNext, next, f.name)
	case f.name == "hour" && step == 24:
		return "once a day is one fixed hour"
	}
	return fmt.Sprintf("for a fixed interval use every: %d%s", step, unit)
}

// macroHint returns the macro that a word is a slip of.
func macroHint(word string) string {
	if strings.HasPrefix(word, "@EVERY") {
		return "an interval is @every and a duration, such as @every 90s, and is no cron expression"
	}
	if word == "@REBOOT" {
		return "there is no boot in a fleet; use a one-shot"
	}
	for _, name := range slices.Sorted(maps.Keys(cronMacros)) {
		if len(word) > 3 && (strings.HasPrefix(name, word) || strings.HasPrefix(word, name) || editDistanceOne(word, name)) {
			return "did you mean " + strings.ToLower(name) + "?"
		}
	}
	return ""
}

// editDistanceOne reports whether one letter was left out, added or replaced.
func editDistanceOne(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return a[i:] == b[i+1:] || i < len(a) && a[i+1:] == b[i+1:]
}
