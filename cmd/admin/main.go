// Command admin manages the schedules of a Belfry fleet: see admin --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // a container may have no time zone data of its own

	"golang.org/x/term"

	"github.com/belfryhq/belfry/internal/admincli"
	"github.com/belfryhq/belfry/internal/buildversion"
	"github.com/belfryhq/belfry/pkg/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	code := admincli.Run(ctx, admincli.Env{
		Stdin:        os.Stdin,
		Stdout:       os.Stdout,
		Stderr:       os.Stderr,
		Terminal:     admincli.Terminal{Stdin: isTerminal(os.Stdin), Stdout: isTerminal(os.Stdout), Stderr: isTerminal(os.Stderr), Input: os.Stdin, Size: terminalSize},
		Now:          time.Now,
		Local:        time.Local,
		User:         userName(),
		Environ:      environ(),
		Open:         admincli.OpenRedis,
		Version:      buildversion.Read(),
		TimeZoneData: worker.TimeZoneFingerprint,
		ConfigDir:    configDir(),
	}, os.Args[1:])
	stop()
	os.Exit(code)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func terminalSize() (columns, rows int) {
	columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, rows
}

func environ() map[string]string {
	out := map[string]string{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		out[name] = value
	}
	return out
}

// userName is who pauses a schedule, for whoever looks at it later.
func userName() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// configDir is where the contexts of this user are; "" is nowhere.
func configDir() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "belfry")
}
