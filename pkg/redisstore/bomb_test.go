package redisstore

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

// endless is a line that never ends.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left -= len(p); e.left < 0 {
		return 0, io.EOF
	}
	copy(p, bytes.Repeat([]byte("x"), len(p)))
	return len(p), nil
}

// A small file that unpacks to one line without end is refused at the bound of a
// line.
func TestABombIsRefusedAtTheBoundOfALine(t *testing.T) {
	var file bytes.Buffer
	zip := gzip.NewWriter(&file)
	bomb := &endless{left: 8 * maxBackupLine}
	if _, err := io.Copy(zip, bomb); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	var info BackupInfo
	var err error
	allocated := testing.AllocsPerRun(1, func() { info, err = VerifyBackup(bytes.NewReader(file.Bytes())) })
	if !errors.Is(err, ErrBadBackup) || !strings.Contains(err.Error(), "longer than the 64 MiB") || info.Lines != 0 || allocated > 1000 {
		t.Errorf("%+v, %v, %v allocations", info, err, allocated)
	}
}

// Lines of large items stay below the bound, and keep pairs together.
func TestLinesAreBoundedInBytes(t *testing.T) {
	large := datum(strings.Repeat("\x01", 2<<20))
	if n := lineOf([]datum{"a", large, "b", large, "c", large, "d", large}); n != 2 {
		t.Errorf("%d items", n)
	}
	if n := lineOf([]datum{large, large, large}); n != 2 {
		t.Errorf("%d items", n)
	}
	small := make([]datum, 2*itemsPerLine)
	if n := lineOf(small); n != itemsPerLine {
		t.Errorf("%d items", n)
	}
	if n := lineOf([]datum{"one"}); n != 1 {
		t.Errorf("%d items", n)
	}
}
