package redisstore

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
	"unicode/utf8"
)

// A backup is a gzip stream of lines of JSON: a header, then parts of keys in
// an order in which they can be restored, then an end with the number of the
// lines before it and the SHA-256 of them. docs/OPERATIONS.md describes it.

// backupVersion is the version of the file's form, not of what is stored.
const backupVersion = 1

// ErrBadBackup reports a file that is no backup, is cut short, or was changed.
// Take another one; no part of this one can be trusted.
var ErrBadBackup = errors.New("redisstore: not a sound backup")

// A BackupInfo says what a backup holds.
type BackupInfo struct {
	Namespace string    // that it was taken of
	Format    int       // of what is stored
	Shards    int       // of the namespace
	TakenAt   time.Time // on the server's clock, to the millisecond
	Schedules int
	Open      int // firings that were open
	Runs      int // ended runs in the logs
	Calendars int
	Leases    int
	Lines     int    // of the file, header and end aside
	SHA256    string // of all lines but the end, in hex
}

// The lines of a backup. A line is of one kind only.
type backupLine struct {
	// Header.
	Backup    int    `json:"belfry_backup,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Format    int    `json:"format,omitempty"`
	Shards    int    `json:"shards,omitempty"`
	TakenMS   int64  `json:"taken_ms,omitempty"`
	// A part of a key: tag of its slot, name, kind and items.
	Tag   string  `json:"tag,omitempty"`
	Key   string  `json:"key,omitempty"`
	Kind  string  `json:"kind,omitempty"`
	ID    string  `json:"id,omitempty"` // of a stream's entry
	Items []datum `json:"items,omitempty"`
	// End.
	End    bool   `json:"end,omitempty"`
	Lines  int    `json:"lines,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// Kinds of keys.
const (
	kindHash   = "hash"   // field, value, ...
	kindZSet   = "zset"   // member, score, ...
	kindSet    = "set"    // members
	kindList   = "list"   // from the head
	kindStream = "stream" // one line an entry: field, value, ...
)

// A datum is any bytes: a JSON string when they are UTF-8, otherwise an object
// that holds them in base64.
type datum string

type binaryDatum struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON never fails.
func (i datum) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(i)) {
		return json.Marshal(string(i))
	}
	return json.Marshal(binaryDatum{[]byte(i)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (i *datum) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, (*string)(i))
	}
	var b binaryDatum
	err := json.Unmarshal(text, &b)
	*i = datum(b.Base64)
	return err
}

// itemsPerLine bounds a line, so that neither writing nor reading needs memory
// for a whole key.
const itemsPerLine = 512

// bytesPerLine bounds a line as well, but for one pair of items, which may be
// larger.
const bytesPerLine = 4 << 20

// A backupWriter writes a backup.
type backupWriter struct {
	zip  *gzip.Writer
	sum  hash.Hash
	info BackupInfo
}

func newBackupWriter(w io.Writer, info BackupInfo) (*backupWriter, error) {
	b := &backupWriter{zip: gzip.NewWriter(w), sum: sha256.New(), info: info}
	err := b.line(backupLine{Backup: backupVersion, Namespace: info.Namespace, Format: info.Format, Shards: info.Shards, TakenMS: info.TakenAt.UnixMilli()})
	b.info.Lines = 0
	return b, err
}

func (b *backupWriter) line(l backupLine) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	b.info.Lines++
	_, _ = b.sum.Write(text) // never fails
	_, err = b.zip.Write(text)
	return err
}

// part writes a key in lines of bounded length; that it is even length keeps
// two items together.
func (b *backupWriter) part(tag, key, kind string, items []datum) error {
	for len(items) > 0 {
		n := lineOf(items)
		if err := b.line(backupLine{Tag: tag, Key: key, Kind: kind, Items: items[:n]}); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// lineOf is how many items go into a line: whole pairs, and at least one.
func lineOf(items []datum) int {
	size := 0
	for n := 0; n < min(len(items), itemsPerLine); n += 2 {
		for _, item := range items[n:min(n+2, len(items))] {
			size += len(item)
		}
		if n > 0 && size > bytesPerLine {
			return n
		}
	}
	return min(len(items), itemsPerLine)
}

func (b *backupWriter) close() error {
	b.info.SHA256 = hex.EncodeToString(b.sum.Sum(nil))
	text, err := json.Marshal(backupLine{End: true, Lines: b.info.Lines, SHA256: b.info.SHA256})
	if err != nil {
		return err
	}
	_, err = b.zip.Write(append(text, '\n'))
	return errors.Join(err, b.zip.Close())
}

// readBackup calls visit with every part, and returns what the backup holds
// when it is sound to its end. Parts were visited before that is known.
func readBackup(r io.Reader, visit func(backupLine) error) (BackupInfo, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return BackupInfo{}, fmt.Errorf("%w: %w", ErrBadBackup, err)
	}
	in := &backupReader{lines: bufio.NewReaderSize(zip, 1<<16), sum: sha256.New()}
	header, err := in.next()
	if err != nil {
		return BackupInfo{}, err
	}
	switch {
	case header.Backup > backupVersion:
		return BackupInfo{}, in.newer(header.Backup)
	case header.Backup < 1 || header.Shards < 1 || header.Shards > maxShards:
		return BackupInfo{}, fmt.Errorf("%w: it starts with no header", ErrBadBackup)
	}
	info := BackupInfo{Namespace: header.Namespace, Format: header.Format, Shards: header.Shards, TakenAt: time.UnixMilli(header.TakenMS).UTC()}
	for {
		before := hex.EncodeToString(in.sum.Sum(nil))
		l, err := in.next()
		if err != nil {
			return info, err
		}
		if l.End {
			info.SHA256 = before
			return info, in.checkEnd(l, &info)
		}
		info.Lines++
		info.count(l)
		if err := visit(l); err != nil {
			return info, err
		}
	}
}

// count adds up what a part holds.
func (i *BackupInfo) count(l backupLine) {
	switch {
	case l.Tag == controlTag && l.Key == "cal":
		i.Calendars += len(l.Items) / 2
	case l.Tag == controlTag && l.Key == "leases":
		i.Leases += len(l.Items)
	case l.Tag == controlTag:
	case l.Key == "def":
		i.Schedules += len(l.Items) / 2
	case l.Key == "fir":
		i.Open += len(l.Items) / 2
	case l.Kind == kindList:
		i.Runs += len(l.Items)
	}
}

// A backupReader reads lines and sums them up.
type backupReader struct {
	lines *bufio.Reader
	sum   hash.Hash
}

// maxBackupLine bounds a line, so that a small file cannot ask for much memory:
// what [backupWriter.part] puts into one, with the longest escapes of JSON.
const maxBackupLine = 64 << 20

func (b *backupReader) next() (backupLine, error) {
	var text []byte
	for {
		piece, err := b.lines.ReadSlice('\n')
		text = append(text, piece...)
		if err == nil {
			break
		}
		if len(text) > maxBackupLine {
			return backupLine{}, fmt.Errorf("%w: a line is longer than the %d MiB that a backup has", ErrBadBackup, maxBackupLine>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return backupLine{}, fmt.Errorf("%w: it is cut short or damaged: %w", ErrBadBackup, err)
		}
	}
	var l backupLine
	if err := json.Unmarshal(text, &l); err != nil {
		return backupLine{}, fmt.Errorf("%w: %w", ErrBadBackup, err)
	}
	_, _ = b.sum.Write(text) // never fails
	return l, nil
}

// checkEnd compares the end with what was read, and makes sure that nothing
// follows; reading on also checks what gzip says of the whole.
func (b *backupReader) checkEnd(end backupLine, info *BackupInfo) error {
	if _, err := b.lines.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more follows its end, or its checksum is wrong", ErrBadBackup)
	}
	if end.Lines != info.Lines || end.SHA256 != info.SHA256 {
		return fmt.Errorf("%w: %d lines with checksum %.12s, it should be %d with %.12s", ErrBadBackup, info.Lines, info.SHA256, end.Lines, end.SHA256)
	}
	return nil
}

// VerifyBackup reads a backup from start to end and returns what it holds. It
// needs no server. It returns ErrBadBackup for one that is not sound, and
// ErrNewerFormat for one that a newer version of this program wrote.
func VerifyBackup(r io.Reader) (BackupInfo, error) {
	info, err := readBackup(r, func(l backupLine) error { return l.check() })
	if err == nil && info.Format > format {
		err = fmt.Errorf("redisstore: read the backup: what it holds has format %d, this program knows %d: %w", info.Format, format, ErrNewerFormat)
	}
	return info, err
}

// newer is the error for a file that says it has a later version. A changed
// byte says so too: the check sum of gzip, which no version does without,
// tells them apart, so that nobody looks for a program that never was.
func (b *backupReader) newer(version int) error {
	if _, err := io.Copy(io.Discard, b.lines); err != nil {
		return fmt.Errorf("%w: %w", ErrBadBackup, err)
	}
	return fmt.Errorf("redisstore: read the backup: its form is version %d, this program knows %d: %w", version, backupVersion, ErrNewerFormat)
}
