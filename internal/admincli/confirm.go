package admincli

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// consent asks before something is done to the listed things; verb is what is
// done, such as "delete". Without a terminal nobody can answer, so that yes is
// needed. More than one need their number typed.
func (s *session) consent(yes bool, verb, noun string, lines []string) error {
	if yes || len(lines) == 0 {
		return nil
	}
	if !s.env.Terminal.Stdin || !s.env.Terminal.Stderr {
		return codedErrorf(exitDeclined, "%s %s needs --yes without a terminal; nothing was changed", verb, count(len(lines), noun))
	}
	for i, line := range lines {
		if i == maxListed {
			fmt.Fprintf(s.err, "  and %d more\n", len(lines)-maxListed)
			break
		}
		fmt.Fprintln(s.err, "  "+visible(line))
	}
	want, question := "y", verb+" it? [y/N] "
	if len(lines) > 1 {
		want = strconv.Itoa(len(lines))
		question = fmt.Sprintf("%s all %s? type %s: ", verb, count(len(lines), noun), want)
	}
	fmt.Fprint(s.err, question)
	return s.answered(want, "declined; nothing was changed")
}

// answered reads the answer to a question. One that is not wanted ("yes" stands
// for "y") declines with the given sentence.
func (s *session) answered(want, declined string) error {
	answer, err := bufio.NewReader(s.env.Stdin).ReadString('\n')
	if errors.Is(err, errInterrupted) {
		fmt.Fprintln(s.err)
		return errInterrupted
	}
	// Any other error ends the answer; no answer is no consent.
	answer = strings.ToLower(strings.TrimSpace(answer))
	if answer == want || want == "y" && answer == "yes" {
		return nil
	}
	return codedErrorf(exitDeclined, "%s", declined)
}
