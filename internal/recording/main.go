package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: recording DIRECTORY")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := record(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// record runs the session and writes both files.
func record(ctx context.Context, dir string) error {
	bin, err := os.MkdirTemp("", "recording")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	build := exec.CommandContext(ctx, "go", "build", "-o", bin+string(filepath.Separator), "./cmd/admin", "./cmd/worker")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	demo, url, err := startDemo(ctx, filepath.Join(bin, "worker"))
	if err != nil {
		return err
	}
	defer func() {
		_ = demo.Process.Signal(os.Interrupt) // it may have ended
		_ = demo.Wait()
	}()
	frames, err := play(ctx, bin, url)
	if err != nil {
		return err
	}
	cast, err := writeCast(frames)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "admin.cast"), cast, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "admin.svg"), drawSVG(scenes(frames)), 0o644)
}

// startDemo starts the worker and returns where its store is. The demo has some
// seconds of history then.
func startDemo(ctx context.Context, worker string) (*exec.Cmd, string, error) {
	demo := exec.CommandContext(ctx, worker, "--demo")
	demo.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "TZ=UTC"}
	out, err := demo.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	demo.Stderr = demo.Stdout
	if err := demo.Start(); err != nil {
		return nil, "", fmt.Errorf("start the demo: %w", err)
	}
	url := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if _, found, ok := strings.Cut(lines.Text(), "export BELFRY_REDIS_URL="); ok {
				url <- strings.TrimSpace(found)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // so that it never waits for a reader
	}()
	select {
	case found := <-url:
		return demo, found, pause(ctx, 12*time.Second)
	case <-time.After(30 * time.Second):
		return demo, "", fmt.Errorf("the demo printed no BELFRY_REDIS_URL")
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
