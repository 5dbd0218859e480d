package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// manual is the manual page of a command and those below it, in the macros of
// man.
func manual(cmd *cobra.Command) string {
	var b strings.Builder
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(name)), roff(name), roff(cmd.Short))
	b.WriteString(".SH SYNOPSIS\n")
	subs := documented(cmd)
	if cmd.HasParent() {
		for _, one := range append([]*cobra.Command{cmd}, subs...) {
			if len(documented(one)) == 0 {
				fmt.Fprintf(&b, ".B %s\n.br\n", roff(one.UseLine()))
			}
		}
	} else {
		fmt.Fprintf(&b, ".B %s COMMAND [flags]\n", roff(name))
	}
	if cmd.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", verbatim(cmd.Long))
	}
	if cmd.HasParent() {
		details(&b, cmd, ".SH OPTIONS\n", ".SH EXAMPLES\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".SH %s\n%s\n", roff(strings.ToUpper(sub.CommandPath())), roff(sub.Short))
			if sub.Long != "" {
				b.WriteString(".PP\n" + verbatim(sub.Long))
			}
			details(&b, sub, ".SS Options\n", ".SS Examples\n")
		}
		b.WriteString(".SH SEE ALSO\n.BR admin (1)\n")
		return b.String()
	}
	b.WriteString(".SH OPTIONS\n")
	eachFlag(cmd.PersistentFlags(), func(names, value, usage string) { option(&b, names, value, usage) })
	b.WriteString(".SH COMMANDS\n")
	for _, sub := range subs {
		fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(strings.ReplaceAll(sub.CommandPath(), " ", "-")), roff(sub.Short))
	}
	return b.String()
}

// details writes options and examples of one command.
func details(b *strings.Builder, cmd *cobra.Command, options, examples string) {
	first := true
	eachFlag(cmd.LocalNonPersistentFlags(), func(names, value, usage string) {
		if first {
			b.WriteString(options)
			first = false
		}
		option(b, names, value, usage)
	})
	if cmd.Example != "" {
		b.WriteString(examples + verbatim(unindented(cmd.Example)))
	}
}

func option(b *strings.Builder, names, value, usage string) {
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(names+" "+value)), roff(usage))
}

// verbatim keeps lines as they are.
func verbatim(text string) string {
	var b strings.Builder
	b.WriteString(".nf\n")
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		b.WriteString(roff(line) + "\n")
	}
	b.WriteString(".fi\n")
	return b.String()
}

// roff escapes what the formatter would take for commands.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
