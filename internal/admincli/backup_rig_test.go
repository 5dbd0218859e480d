package admincli

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

// inFiles lets the test run in a copy of testdata/files, so that commands may
// write there.
func inFiles(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/files")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
}

// A cannedArchive backs up a namespace with two schedules, and restores into
// another one; both live in a miniredis that is started when it is needed.
type cannedArchive struct {
	t        *testing.T
	now      func() time.Time
	from, to *redisstore.Store
}

func (c *cannedArchive) stores() (from, to *redisstore.Store) {
	c.t.Helper()
	if c.from != nil {
		return c.from, c.to
	}
	client := redistest.Backends()[0].Dial(c.t)
	for namespace, store := range map[string]**redisstore.Store{"prod": &c.from, "copy": &c.to} {
		made, err := redisstore.New(client, redisstore.Options{Namespace: namespace, Now: c.now})
		if err != nil {
			c.t.Fatal(err)
		}
		*store = made
	}
	for _, id := range []schedule.ID{"a", "b"} {
		_, err := c.from.Put(context.Background(), schedule.Schedule{ID: id, Expression: "@hourly", Type: "log"}, schedule.PutOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
	}
	return c.from, c.to
}

func (c *cannedArchive) Backup(ctx context.Context, w io.Writer, progress func(done, shards int)) (redisstore.BackupInfo, error) {
	from, _ := c.stores()
	return from.Backup(ctx, w, progress)
}

func (c *cannedArchive) Restore(ctx context.Context, file io.ReadSeeker, options redisstore.RestoreOptions) (redisstore.BackupInfo, error) {
	_, to := c.stores()
	return to.Restore(ctx, file, options)
}

func (c *cannedArchive) Check(ctx context.Context) ([]redisstore.Violation, error) {
	_, to := c.stores()
	return to.Check(ctx)
}
