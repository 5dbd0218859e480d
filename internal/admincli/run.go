package admincli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/pkg/schedule"
	"github.com/spf13/cobra"
)

// Run runs one command line, without the program name, and returns the exit
// code: 0 done, 1 failed, 2 usage or an invalid value or file, 3 declined, 4
// not authorised, 5 not found, 6 conflict (version, or it exists), 7 store
// unreachable, 8 condition not met, 130 interrupted, which is when ctx ends.
// It never panics.
func Run(ctx context.Context, env Env, args []string) (code int) {
	env.Stdin = &interruptible{ctx: ctx, r: env.Stdin}
	s := &session{env: env, ctx: ctx, args: args}
	s.out, s.err = &stickyWriter{w: env.Stdout, columns: s.columns()}, env.Stderr
	defer func() {
		if fault := recover(); fault != nil {
			fmt.Fprintf(env.Stderr, "error: internal fault: %s: please report it with the command line\n", visible(clip(fmt.Sprint(fault), 200)))
			code = exitFailed
		}
	}()
	defer s.close()
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(s.out)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	if err == nil && s.out.err != nil {
		err = fmt.Errorf("write the output: %w", s.out.err)
	}
	s.report(err)
	return exitCode(err)
}

// A stickyWriter keeps the first error, so that writers need not look.
type stickyWriter struct {
	w       io.Writer
	err     error
	columns int // of the terminal behind it; 0: there is none, or nobody knows
}

// columns is how wide the terminal of standard output is, 0 for no terminal.
func (s *session) columns() int {
	if !s.env.Terminal.Stdout || s.env.Terminal.Size == nil {
		return 0
	}
	columns, _ := s.env.Terminal.Size()
	return columns
}

func (s *stickyWriter) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}

// An interruptible reader stops waiting when its context ends. What the
// abandoned read gets is lost, which does no harm: the program ends then.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	type answer struct {
		text []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text := make([]byte, len(p))
		n, err := i.r.Read(text)
		done <- answer{text[:n], err}
	}()
	select {
	case a := <-done:
		return copy(p, a.text), a.err
	case <-i.ctx.Done():
		return 0, errInterrupted
	}
}

// report writes one line for each error that was joined.
func (s *session) report(err error) {
	var silent silentCode
	if err == nil || errors.As(err, &silent) {
		return
	}
	for _, one := range flatten(err) {
		fmt.Fprintf(s.err, "%s %s\n", paint("error:", red, s.painted(s.env.Terminal.Stderr)), describe(one, s.address))
	}
}

// flatten lists the errors of a joined error, however it is wrapped.
func flatten(err error) []error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if joined, ok := e.(interface{ Unwrap() []error }); ok {
			var all []error
			for _, one := range joined.Unwrap() {
				all = append(all, flatten(one)...)
			}
			return all
		}
	}
	return []error{err}
}

const rootHelp = `Manage the schedules of a Belfry fleet.

The store is named by BELFRY_REDIS_URL (or --redis) and BELFRY_NAMESPACE (or
--namespace). Data goes to standard output, everything else to standard error.

Exit codes: 0 done, 1 failed, 2 usage or an invalid value or file, 3 declined,
4 not authorised, 5 not found, 6 conflict, 7 store unreachable, 8 condition not
met, 130 interrupted.`

func newRoot(s *session) *cobra.Command {
	root := &cobra.Command{
		Use: "admin", Short: "Manage the schedules of a Belfry fleet", Long: rootHelp,
		Example:           "  admin schedule list\n  admin stats",
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return s.start(cmd) },
	}
	s.flags.register(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageErrorf("%s; see %s --help", flagProblem(cmd, err), cmd.CommandPath())
	})
	root.AddCommand(newSchedule(s), newApply(s), newCalendar(s), newDiff(s), newExport(s), newValidate(s), newImport(s), newLease(s), newPeriodic(s), newStats(s), newCron(s), newVersion(s))
	group(root)
	root.AddCommand(newEvents(s))
	root.AddCommand(operations(s)...)
	guardCompletions(root)
	root.InitDefaultCompletionCmd()
	return root
}

// group makes a command that only holds others: alone it prints its help, and
// an unknown one below it is refused with the nearest names.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, sub.Name())
			}
		}
		near := didYouMean(args[0], names)
		if near == "" {
			near = "; allowed: " + strings.Join(names, ", ")
		}
		return usageErrorf("unknown command %q of %q%s", clip(args[0], 60), cmd.CommandPath(), near)
	}
	return cmd
}

// badArgument matches how the flag parser refuses a value.
var badArgument = regexp.MustCompile(`^invalid argument (".*") for "(?:-., )?--([a-z-]+)" flag: `)

// flagProblem rewords what the flag parser says, and finds nearest flags.
func flagProblem(cmd *cobra.Command, err error) string {
	text := err.Error()
	if m := badArgument.FindStringSubmatch(text); m != nil {
		allowed := "a whole number"
		if flag := cmd.Flag(m[2]); flag != nil && flag.Value.Type() == "bool" {
			allowed = "true or false"
		}
		return m[2] + " " + clip(m[1], maxCell) + ": allowed: " + allowed
	}
	name, found := strings.CutPrefix(text, "unknown flag: --")
	if !found {
		return text
	}
	var names []string
	cmd.Flags().VisitAll(func(f *flagType) { names = append(names, "--"+f.Name) })
	cmd.InheritedFlags().VisitAll(func(f *flagType) { names = append(names, "--"+f.Name) })
	slices.Sort(names)
	if name == "timezone" && slices.Contains(names, "--tz") { // as files call it
		return "unknown flag --timezone; did you mean --tz?"
	}
	return "unknown flag --" + name + didYouMean("--"+name, slices.Compact(names))
}

// arguments checks how many positional arguments a command has.
func arguments(least, most int, usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageErrorf("%s is missing; usage: %s", usage, cmd.UseLine())
		case most >= 0 && len(args) > most:
			return usageErrorf("%q is one argument too many; usage: %s", clip(args[most], 60), cmd.UseLine())
		}
		return nil
	}
}

// validID checks a schedule ID that was given as an argument.
func validID(name string) (schedule.ID, error) {
	id := schedule.ID(name)
	return id, id.Validate()
}
