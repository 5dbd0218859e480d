//go:build unix

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pipe makes a named pipe, as mkfifo does.
func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAPipeThatNobodyWritesToEnds: it used to hold the start for ever.
func TestAPipeThatNobodyWritesToEnds(t *testing.T) {
	path := pipe(t)
	_, err := readSecret(path, 20*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "after 20ms: a pipe needs somebody who writes") {
		t.Errorf("readSecret of a pipe without a writer: %v", err)
	}
	// The goroutine that waits for a writer gets one, and ends.
	if file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = file.Close()
	}
}

// TestAPipeThatStaysOpenEnds has a writer that never closes.
func TestAPipeThatStaysOpenEnds(t *testing.T) {
	path := pipe(t)
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.WriteString("redis://:" + canary + "@db"); err != nil {
		t.Fatal(err)
	}
	if secret, err := readSecret(path, 20*time.Millisecond); err == nil || secret != "" || strings.Contains(err.Error(), canary) {
		t.Errorf("readSecret of a pipe that stays open = %q, %v; want an error without the secret", secret, err)
	}
}

func TestSecretsFromPipesAndLinks(t *testing.T) {
	path := pipe(t)
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("redis://:"+canary+"@db:1\n"), 0o600) }()
	w, err := Load(map[string]string{"BELFRY_REDIS_URL_FILE": path})
	if err != nil || w.Redis.URL.Password.Reveal() != canary {
		t.Errorf("named pipe: password %q, %v; want the canary", w.Redis.URL.Password.Reveal(), err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}

	// What a shell hands over for <(...).
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := writer.WriteString("redis://:" + canary + "@db:1\n"); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	w, err = Load(map[string]string{"BELFRY_REDIS_URL_FILE": fmt.Sprintf("/dev/fd/%d", reader.Fd())})
	if err != nil || w.Redis.URL.Password.Reveal() != canary {
		t.Errorf("/dev/fd: password %q, %v; want the canary", w.Redis.URL.Password.Reveal(), err)
	}

	// Kubernetes: the name links to ..data/name, and ..data to a folder.
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "..2026"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "..2026", "url"), []byte("redis://:"+canary+"@db:1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"..data": "..2026", "url": filepath.Join("..data", "url")} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	w, err = Load(map[string]string{"BELFRY_REDIS_URL_FILE": filepath.Join(folder, "url")})
	if err != nil || w.Redis.URL.Password.Reveal() != canary {
		t.Errorf("links: password %q, %v; want the canary", w.Redis.URL.Password.Reveal(), err)
	}
}
