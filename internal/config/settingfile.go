package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// maxSecretFile bounds what is read from an X_FILE, in bytes.
	maxSecretFile = 64 << 10
	// maxSettingFile bounds the files of certificates, in bytes: the authorities
	// of a system are some 250 KiB.
	maxSettingFile = 4 << 20
	// fileWait bounds how long that may take: a pipe from a shell's <(...)
	// answers when its command does, and one that nobody writes to never.
	fileWait = 5 * time.Second
)

// ReadFile reads a file that a setting names, such as one of certificates. It
// takes everything that can be read to an end: such files are symbolic links
// under Kubernetes, and pipes from a shell. What is longer than 4 MiB, or has
// no end after 5 s, is an error. The text of the error is a hint that repeats
// neither name nor content.
func ReadFile(path string) ([]byte, error) { return readFile(path, maxSettingFile, fileWait) }

func readFile(path string, most int64, wait time.Duration) ([]byte, error) {
	type outcome struct {
		content []byte
		err     error
	}
	done := make(chan outcome, 1)
	// Opening a pipe waits for its writer, and no deadline ends that: the
	// goroutine of one that nobody writes to stays, in a program that ends.
	go func() {
		content, err := readBounded(path, most+1)
		done <- outcome{content, err}
	}()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-limit.C:
		return nil, fmt.Errorf("it has no end after %s: a pipe needs somebody who writes to it and closes it", wait)
	case got := <-done:
		switch {
		case got.err != nil:
			return nil, plainCause(got.err)
		case int64(len(got.content)) > most:
			return nil, errors.New("it is longer")
		case len(got.content) == 0:
			return nil, errEmptyFile
		}
		return got.content, nil
	}
}

var errEmptyFile = errors.New("it is empty")

// readSecret returns what an X_FILE holds, without the line ends after it.
func readSecret(path string, wait time.Duration) (string, error) {
	content, err := readFile(path, maxSecretFile, wait)
	secret := strings.TrimRight(string(content), "\r\n")
	if err == nil && secret == "" {
		err = errEmptyFile
	}
	return secret, err
}

// readBounded reads no more than tells that a file is too long: a device has no
// end.
func readBounded(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// plainCause is what the system said, without the path that the error names
// already.
func plainCause(err error) error {
	var system syscall.Errno
	if errors.As(err, &system) {
		return system
	}
	return err
}
