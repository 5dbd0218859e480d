package admincli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

func newEdit(s *session) *cobra.Command {
	f := &writeFlags{}
	cmd := &cobra.Command{
		Use: "edit NAME", Short: "Change a schedule in an editor",
		Long: `Open the definition of a schedule in the editor that VISUAL or EDITOR names (vi on
a terminal). It is opened again, with the error in a comment, until it is
accepted; saving it without another change gives up. When somebody else changed
the schedule meanwhile, the exit code is 6. What was written is kept in a file
whenever it was not accepted.`,
		Example:           "  admin schedule edit nightly-report --dry-run",
		Args:              arguments(1, 1, "NAME"),
		ValidArgsFunction: s.completeIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			return s.edit(f, args)
		},
	}
	f.register(cmd)
	return cmd
}

func (s *session) edit(f *writeFlags, args []string) error {
	editor, err := s.editor()
	if err != nil {
		return err
	}
	entries, err := s.named(args)
	if err != nil {
		return err
	}
	e := entries[0]
	text, err := editable(e.Schedule)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "belfry-"+string(e.Schedule.ID)+"-*.yaml")
	if err != nil {
		return fmt.Errorf("make a file to edit: %w", err)
	}
	_ = file.Close() // it is empty
	err = s.editUntilAccepted(*f, e, editor, file.Name(), text)
	var kept *keptError
	if errors.As(err, &kept) {
		s.note("what you wrote is kept in %s", file.Name())
		return kept.err
	}
	_ = os.Remove(file.Name()) // a leftover in the directory for such files does no harm
	return err
}

// A keptError is a failure after which the text of the user stays on disk.
type keptError struct{ err error }

func (k *keptError) Error() string { return k.err.Error() }

func (k *keptError) Unwrap() error { return k.err }

// editor is the command line of the editor.
func (s *session) editor() (string, error) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if editor := strings.TrimSpace(s.env.Environ[name]); editor != "" {
			return editor, nil
		}
	}
	if s.env.Terminal.Stdin && s.env.Terminal.Stdout {
		return "vi", nil
	}
	return "", usageErrorf("no editor: set VISUAL or EDITOR; scripts use admin schedule update or admin apply")
}

// editable renders a definition as a file.
func editable(d schedule.Schedule) (string, error) {
	text, err := marshal(d)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := writeYAML(&b, text); err != nil {
		return "", err
	}
	return b.String(), nil
}

const editHelp = `# The definition of a schedule; lines that start with # are dropped.
# Pause and resume are commands of their own. Empty the file to give up.
`

// editUntilAccepted opens the editor again with each error.
func (s *session) editUntilAccepted(f writeFlags, e schedule.Entry, editor, file, text string) error {
	original, head := text, editHelp
	var problem error
	for {
		if err := os.WriteFile(file, []byte(head+text), 0o600); err != nil {
			return fmt.Errorf("write the file to edit: %w", err)
		}
		if err := s.openEditor(editor, file); err != nil {
			if problem != nil {
				return &keptError{err}
			}
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read what was edited: %w", err)
		}
		edited := withoutComments(string(content))
		switch {
		case strings.TrimSpace(edited) == "":
			return codedErrorf(exitDeclined, "the file was emptied; nothing was changed")
		case edited == text && problem != nil:
			return &keptError{problem}
		case edited == original:
			s.note("nothing was edited; nothing was changed")
			return nil
		}
		err = s.putEdited(f, e, edited, 0)
		if code := exitCode(err); code != exitUsage {
			if err != nil && code != exitInterrupted {
				return &keptError{err}
			}
			return err
		}
		// Nothing was written. Checked again, the places count the lines of
		// the comment that will stand above.
		head = editHelp + comment(err)
		if again := s.putEdited(f, e, edited, strings.Count(head, "\n")); again != nil {
			head = editHelp + comment(again)
		}
		problem, text = err, edited
	}
}

// openEditor waits for the editor. Its name may have arguments, as in EDITOR
// of a shell.
func (s *session) openEditor(editor, file string) error {
	cmd := exec.CommandContext(s.ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr // standard output is for data
	if s.env.Terminal.Stdout {
		cmd.Stdout = os.Stdout
	}
	if err := cmd.Run(); err != nil {
		if s.ctx.Err() != nil {
			return errInterrupted
		}
		return codedErrorf(exitFailed, "the editor %q failed: %s; nothing was changed", editor, err)
	}
	return nil
}

// withoutComments drops lines that start with #.
func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// comment renders an error for the top of the file.
func comment(err error) string {
	var b strings.Builder
	for _, one := range flatten(err) {
		fmt.Fprintf(&b, "# error: %s\n", describe(one, ""))
	}
	return b.String()
}

// putEdited checks and puts what was edited. Places in errors count as many
// lines above it.
func (s *session) putEdited(f writeFlags, e schedule.Entry, text string, above int) error {
	content, err := readFile("line", []byte(strings.Repeat("\n", above)+text))
	if err != nil {
		return err
	}
	if len(content.schedules) != 1 || len(content.calendars) > 0 {
		return usageErrorf("the file holds %s and %s: allowed: the one schedule %s", count(len(content.schedules), "schedule"),
			count(len(content.calendars), "calendar"), e.Schedule.ID)
	}
	d, err := s.decode(content.schedules[0])
	if err != nil {
		return err
	}
	if d.definition.ID != e.Schedule.ID {
		return fileProblem(d.written.find("id"), "id %q: allowed: %s, since a schedule keeps its name; admin schedule create makes another one", d.definition.ID, e.Schedule.ID)
	}
	d.definition.Paused = e.Schedule.Paused
	if sameJSON(d.definition.Payload, e.Schedule.Payload) {
		d.definition.Payload = e.Schedule.Payload // the bytes that handlers know
	}
	return s.replace(e, d.definition, f)
}
