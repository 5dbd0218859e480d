package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pages returns the text of every page by its path.
func pages(root *cobra.Command) map[string]string {
	all := map[string]string{}
	var index strings.Builder
	fmt.Fprintf(&index, "# %s\n\n%s\n\n%s", root.Name(), root.Long, flagTable("Flags of every command", root.PersistentFlags()))
	index.WriteString("\n## Commands\n\n| command | what it does |\n|---|---|\n")
	for _, cmd := range documented(root) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		all[name+".md"] = markdown(cmd)
		all["man/"+name+".1"] = manual(cmd)
		fmt.Fprintf(&index, "| [%s](%s.md) | %s |\n", cmd.CommandPath(), name, cell(cmd.Short))
		for _, sub := range documented(cmd) {
			fmt.Fprintf(&index, "| [%s](%s.md#%s) | %s |\n", sub.CommandPath(), name, anchor(sub.CommandPath()), cell(sub.Short))
		}
	}
	index.WriteString("\nThese pages are made from the same text as `--help`; do not edit them.\n")
	all["README.md"] = index.String()
	all["man/"+root.Name()+".1"] = manual(root)
	return all
}

// documented lists the commands below one; help describes itself, and
// completion differs from one version of the library to another.
func documented(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" && sub.IsAvailableCommand() {
			all = append(all, sub)
		}
	}
	return all
}

func anchor(heading string) string { return strings.ReplaceAll(heading, " ", "-") }

// cell makes a text fit for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// markdown describes a command and those below it.
func markdown(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", cmd.CommandPath())
	section(&b, cmd)
	for _, sub := range documented(cmd) {
		fmt.Fprintf(&b, "\n## %s\n", sub.CommandPath())
		section(&b, sub)
	}
	return b.String()
}

func section(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n%s.\n", strings.TrimSuffix(cmd.Short, "."))
	if cmd.Long != "" {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimSpace(cmd.Long))
	}
	if len(documented(cmd)) == 0 {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```sh\n%s\n```\n", unindented(cmd.Example))
	}
	b.WriteString(flagTable("", cmd.LocalNonPersistentFlags()))
}

func unindented(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

// eachFlag visits the flags but --help.
func eachFlag(flags *pflag.FlagSet, visit func(names, value, usage string)) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		names := "--" + f.Name
		if f.Shorthand != "" {
			names = "-" + f.Shorthand + ", " + names
		}
		value, usage := pflag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		visit(names, value, usage)
	})
}

func flagTable(title string, flags *pflag.FlagSet) string {
	var b strings.Builder
	eachFlag(flags, func(names, value, usage string) {
		if b.Len() == 0 {
			b.WriteString("\n| flag | value | meaning |\n|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", names, cell(value), cell(usage))
	})
	if b.Len() > 0 && title != "" {
		return "## " + title + "\n" + b.String()
	}
	return b.String()
}
