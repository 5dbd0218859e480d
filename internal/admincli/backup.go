package admincli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/pkg/redisstore"
)

// An Archive backs a namespace up and restores it.
type Archive interface {
	Backup(ctx context.Context, w io.Writer, progress func(done, shards int)) (redisstore.BackupInfo, error)
	Restore(ctx context.Context, file io.ReadSeeker, options redisstore.RestoreOptions) (redisstore.BackupInfo, error)
	Check(ctx context.Context) ([]redisstore.Violation, error)
}

func newBackup(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "backup", Short: "Back up a namespace to a file, verify it, restore it",
		Example: "  admin backup create belfry.backup --force\n  admin backup verify belfry.backup"}
	force, yes := false, false
	create := &cobra.Command{Use: "create FILE", Short: "Write everything that the namespace holds of schedules to one file",
		Long: `Write definitions, counters, history, open firings, run logs, calendars,
backfills, events, periodic tasks and leases to one file with a checksum. Queues
and tasks are asynq's and not in it. Workers may go on: each shard is as it was
in one moment. The file appears when it is complete, readable by its owner only:
payloads are in it.`,
		Example: "  admin backup create belfry.backup --force", Args: arguments(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return s.backupCreate(args[0], force) }}
	create.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	verify := &cobra.Command{Use: "verify FILE", Short: "Read a backup from start to end and say what it holds; needs no store",
		Example: "  admin backup verify belfry.backup", Args: arguments(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return s.backupVerify(args[0]) }}
	restore := &cobra.Command{Use: "restore FILE", Short: "Restore a backup into an empty namespace",
		Long: `Restore a backup into a namespace that is empty and has no workers. The file is
verified before anything is written. Nobody can use the namespace until all of it
is there; when the command was broken off, run it again.

Then: fencing tokens are above those of the backup, so that whoever held a claim
or a lease before is refused, and leases are free. Scheduled times that passed
since the backup count as missed, and each schedule's missed policy decides.
Firings that were open come back open: workers look for their tasks and enqueue
again those whose task is not there, which repeats what ran after the backup was
taken. Handlers that use the firing ID as idempotency key are not affected.`,
		Example: "  admin backup restore belfry.backup --namespace copy --yes", Args: arguments(1, 1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return s.backupRestore(args[0], yes) }}
	restore.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.AddCommand(create, verify, restore)
	return group(cmd)
}

// A backupJSON is what the commands print.
type backupJSON struct {
	File      string  `json:"file"`
	Action    string  `json:"action"`         // created, verified or restored
	Namespace string  `json:"namespace"`      // that it was taken of
	Into      string  `json:"into,omitempty"` // restore: the namespace that holds it now
	TakenAt   *string `json:"taken_at"`
	TakenAtMS *int64  `json:"taken_at_ms"`
	Format    int     `json:"format"`
	Shards    int     `json:"shards"`
	Schedules int     `json:"schedules"`
	Open      int     `json:"open"`
	Runs      int     `json:"runs"`
	Calendars int     `json:"calendars"`
	Leases    int     `json:"leases"`
	Lines     int     `json:"lines"`
	SHA256    string  `json:"sha256"`
}

// showBackup prints what a backup holds; into is the namespace that it was
// restored into.
func (s *session) showBackup(file, action, into string, i redisstore.BackupInfo) error {
	in := s.location(time.UTC)
	v := backupJSON{File: file, Action: action, Namespace: i.Namespace, Into: into, TakenAt: iso(i.TakenAt, in), TakenAtMS: millis(i.TakenAt), Format: i.Format,
		Shards: i.Shards, Schedules: i.Schedules, Open: i.Open, Runs: i.Runs, Calendars: i.Calendars, Leases: i.Leases, Lines: i.Lines, SHA256: i.SHA256}
	return s.emit(view{data: v, names: []string{file}, table: func(w io.Writer) {
		fmt.Fprintln(w, visible(action+" "+file))
		f := &sheet{}
		if into != "" {
			f.add("into", fmt.Sprintf("namespace %s at %s", into, s.address))
		}
		f.add("namespace", fmt.Sprintf("%s, %s, format %d", i.Namespace, count(i.Shards, "shard"), i.Format))
		f.add("taken", when(i.TakenAt, s.env.Now(), in))
		f.add("holds", fmt.Sprintf("%s, %s, %s, %s, %s", count(i.Schedules, "schedule"), count(i.Open, "open firing"), count(i.Runs, "run"), count(i.Calendars, "calendar"), count(i.Leases, "lease")))
		f.add("checksum", i.SHA256)
		f.write(w)
	}})
}

func (s *session) archive() (Archive, error) {
	stores, err := s.store()
	if err != nil {
		return nil, err
	}
	if stores.Archive == nil {
		return nil, errors.New("admincli: this store cannot be backed up")
	}
	return stores.Archive, nil
}

// backupAttempts is how often a backup is taken when calendars change
// meanwhile.
const backupAttempts = 3

func (s *session) backupCreate(file string, force bool) error {
	if _, err := os.Stat(file); err == nil && !force {
		return codedErrorf(exitConflict, "file %q exists; take another name, or --force", clip(file, maxCell))
	}
	archive, err := s.archive()
	if err != nil {
		return err
	}
	var info redisstore.BackupInfo
	for range backupAttempts {
		info, err = s.backupTo(archive, file)
		if !errors.Is(err, redisstore.ErrMoved) {
			break
		}
	}
	switch {
	case err != nil && s.interrupted():
		s.warn("interrupted; no file was written, since a backup is whole or not there. Start over with: %s", s.commandLine())
		return errInterrupted
	case errors.Is(err, redisstore.ErrEmptyNamespace):
		return codedErrorf(exitNotFound, "the namespace is empty: nothing was ever stored in it; see --namespace")
	case err != nil:
		return err
	}
	return s.showBackup(file, "created", "", info)
}

// backupTo writes beside the file and moves it there when it is complete.
func (s *session) backupTo(archive Archive, file string) (redisstore.BackupInfo, error) {
	partial, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".partial-*")
	if err != nil {
		return redisstore.BackupInfo{}, fmt.Errorf("write a backup into directory %q: %w", filepath.Dir(file), errors.Unwrap(err))
	}
	defer func() {
		_ = partial.Close()           // closed below when all is well
		_ = os.Remove(partial.Name()) // moved below when all is well
	}()
	bar := s.progress("shards")
	info, err := archive.Backup(s.ctx, partial, bar.show)
	bar.end()
	if err != nil {
		return info, err
	}
	if err := errors.Join(partial.Sync(), partial.Close()); err != nil {
		return info, fmt.Errorf("write the backup: %w", err)
	}
	return info, os.Rename(partial.Name(), file)
}

// verified opens a backup and reads it to its end.
func (s *session) verified(file string) (*os.File, redisstore.BackupInfo, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, redisstore.BackupInfo{}, usageErrorf("backup %q: %v", clip(file, maxCell), errors.Unwrap(err))
	}
	info, err := redisstore.VerifyBackup(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, info, codedErrorf(exitUsage, "backup %q: %v", clip(file, maxCell), err)
	}
	return f, info, nil
}

func (s *session) backupVerify(file string) error {
	f, info, err := s.verified(file)
	if err != nil {
		return err
	}
	_ = f.Close() // it was only read
	return s.showBackup(file, "verified", "", info)
}

func (s *session) backupRestore(file string, yes bool) error {
	f, info, err := s.verified(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	archive, err := s.archive()
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s with %s, taken %s of namespace %s, into the empty namespace %s at %s", file, count(info.Schedules, "schedule"),
		when(info.TakenAt, s.env.Now(), s.location(time.UTC)), info.Namespace, s.stores.Namespace, s.address)
	if err := s.consent(yes, "restore", "backup", []string{line}); err != nil {
		return err
	}
	bar := s.progress("lines")
	_, err = archive.Restore(s.ctx, f, redisstore.RestoreOptions{Attempt: rand.Text(), Progress: func(n int) { bar.show(n, info.Lines) }})
	bar.end()
	switch {
	case err != nil && s.interrupted():
		s.warn("interrupted; nobody can use the namespace before all of it is restored. Start over with: %s", s.commandLine())
		return errInterrupted
	case errors.Is(err, redisstore.ErrNotEmpty):
		return codedErrorf(exitConflict, "%v: give another --namespace, or another server", err)
	case err != nil:
		return fmt.Errorf("%w; run the command again: it starts over", err)
	}
	violations, err := archive.Check(s.ctx)
	if err != nil {
		return err
	}
	for _, v := range violations {
		s.warn("%s", v)
	}
	if len(violations) > 0 {
		return codedErrorf(exitFailed, "restored, but %s; the backup holds them as well: workers repair indexes, admin doctor --fix does so at once", count(len(violations), "invariant")+" broken")
	}
	s.note("nothing fires before workers of the namespace run; then see: admin doctor")
	return s.showBackup(file, "restored", s.stores.Namespace, info)
}
