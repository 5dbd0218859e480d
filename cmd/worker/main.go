// Command worker is a member of a Belfry fleet: it fires due schedules, runs
// tasks and looks after what was lost. It is configured by the environment;
// see docs/CONFIGURATION.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	_ "time/tzdata" // a container may have no time zone data of its own

	"golang.org/x/term"

	"github.com/belfryhq/belfry/internal/app"
	"github.com/belfryhq/belfry/internal/buildversion"
	"github.com/belfryhq/belfry/pkg/handler"
)

const usage = `Usage: worker [--demo] [--version] [--help] [--health URL]

Runs until it is stopped by SIGTERM or Ctrl-C; a second one ends it at once.

  --demo         use a Redis inside this process, with example schedules;
                 nothing needs to be installed and nothing is durable
  --health URL   ask a health endpoint and exit with 0 when it is well, for
                 container health checks
  --version      print the version and exit

Without --demo, BELFRY_REDIS_URL says where Redis is. All settings are
environment variables: see docs/CONFIGURATION.md.

Exit codes: 0 stopped in order, 1 failed, 2 called wrongly or a setting is
refused, 130 ended by a second signal.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) (code int) {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	demo := flags.Bool("demo", false, "")
	version := flags.Bool("version", false, "")
	health := flags.String("health", "", "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return app.ExitDone
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("argument %q: allowed: flags only", flags.Arg(0))
	}
	probe := false
	flags.Visit(func(f *flag.Flag) { probe = probe || f.Name == "health" })
	if err != nil {
		fmt.Fprintf(stderr, "worker: %s\n\n%s", err, usage)
		return app.ExitUsage
	}
	if *version {
		fmt.Fprintf(stdout, "worker %s (%s)\n", buildversion.Read(), runtime.Version())
		return app.ExitDone
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go stopOnSignal(cancel)
	if probe { // also when an unset variable left the URL empty: a probe never starts a worker
		err = app.Probe(ctx, *health)
	} else {
		err = app.Run(ctx, app.Options{Demo: *demo, Version: buildversion.Read(), Stdout: stdout, Stderr: stderr,
			Terminal: term.IsTerminal(int(os.Stderr.Fd()))})
		handler.KillCommands() // what outlasted the drain
	}
	if err != nil {
		fmt.Fprintf(stderr, "worker: %s\n", err)
	}
	return app.ExitCode(err)
}

// stopOnSignal calls stop at the first signal, and ends the process and the
// commands of exec tasks at once, with the code of an interrupt, at the second.
func stopOnSignal(stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	<-signals
	stop()
	<-signals
	handler.KillCommands()
	os.Exit(app.ExitInterrupted)
}
