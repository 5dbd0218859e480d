package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/internal/redistest"
	"github.com/belfryhq/belfry/pkg/redisstore"
	"github.com/belfryhq/belfry/pkg/schedule"
)

const (
	applied = 10_000  // schedules in one file
	stored  = 100_000 // schedules in one namespace
)

// The limits that stand beside the numbers.
const (
	limitFirstPage = 200 * time.Millisecond
	limitApply     = 10 * time.Second
)

// BenchmarkAdminAtScale runs the real program against a real server that holds
// 100,000 schedules, and prints times and the most memory that a process used.
// The memory of a list and an export must not grow with what is stored.
func BenchmarkAdminAtScale(b *testing.B) {
	program := buildAdmin(b)
	for b.Loop() {
		server := redistest.Start(b, redistest.ServerOptions{})
		a := &admin{b: b, program: program, address: server.Addr()}
		apply := a.run(schedulesFile(0, applied), "apply", "-f", "-", "-o", "name")
		unchanged := a.run(schedulesFile(0, applied), "apply", "-f", "-", "-o", "name")
		few := a.run(nil, "export")
		putMore(b, server.Client())
		page := a.run(nil, "schedule", "list", "--limit", "100")
		list := a.run(nil, "schedule", "list", "-o", "jsonl")
		many := a.run(nil, "export")
		if list.lines != stored {
			b.Errorf("the list has %d lines, want %d", list.lines, stored)
		}
		b.ReportMetric(seconds(apply.took), "s-apply-10000")
		b.ReportMetric(seconds(apply.cpu), "cpu-s-apply-10000")
		b.ReportMetric(seconds(unchanged.took), "s-apply-unchanged")
		b.ReportMetric(millis(page.took), "ms-list-100-of-100000")
		b.ReportMetric(millis(list.first), "ms-first-of-100000")
		b.ReportMetric(seconds(list.took), "s-list-100000")
		b.ReportMetric(mib(list.memory), "MiB-list")
		b.ReportMetric(millis(many.first), "ms-export-first-byte")
		b.ReportMetric(seconds(many.took), "s-export-100000")
		b.ReportMetric(mib(many.memory), "MiB-export")
		b.Logf("limits: apply %s, first page %s; export of %d took %.1f MiB of memory and of %d %.1f MiB, %d bytes",
			limitApply, limitFirstPage, applied, mib(few.memory), stored, mib(many.memory), many.bytes)
		for what, got := range map[string][2]time.Duration{"apply": {apply.took, limitApply}, "first page": {page.took, limitFirstPage}} {
			if got[0] > got[1] {
				b.Logf("%s took %s, the limit is %s: on a busy machine run it alone", what, got[0].Round(time.Millisecond), got[1])
			}
		}
		if many.memory > 2*few.memory || list.memory > 2*few.memory {
			b.Errorf("memory grows with what is stored: %.1f MiB, %.1f MiB for a list, for ten times less %.1f MiB", mib(many.memory), mib(list.memory), mib(few.memory))
		}
	}
}

func seconds(d time.Duration) float64 { return d.Seconds() }
func millis(d time.Duration) float64  { return float64(d.Microseconds()) / 1000 }
func mib(bytes int64) float64         { return float64(bytes) / (1 << 20) }

func buildAdmin(b *testing.B) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "admin")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/admin").CombinedOutput(); err != nil {
		b.Fatalf("build admin: %v\n%s", err, out)
	}
	return program
}

// schedulesFile has n schedules from a number on, as an operator would write
// them.
func schedulesFile(from, n int) []byte {
	var file bytes.Buffer
	file.WriteString("schedules:\n")
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&file, "  - {id: s-%06d, expression: \"%d * * * *\", timezone: Europe/Berlin, type: log, payload: {n: %d}}\n", i, i%60, i)
	}
	return file.Bytes()
}

// putMore stores the schedules that no file holds.
func putMore(b *testing.B, client redis.UniversalClient) {
	b.Helper()
	store, err := redisstore.New(client, redisstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for from := applied; from < stored; from += 1000 {
		definitions := make([]schedule.Schedule, 1000)
		for i := range definitions {
			definitions[i] = schedule.Schedule{ID: schedule.ID(fmt.Sprintf("s-%06d", from+i)), Expression: fmt.Sprintf("%d * * * *", i%60),
				Timezone: "Europe/Berlin", Type: "log", Payload: fmt.Appendf(nil, `{"n":%d}`, from+i)}
		}
		if _, err := store.PutMany(b.Context(), definitions, schedule.PutOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// An admin runs the program.
type admin struct {
	b       *testing.B
	program string
	address string
}

// A usage is what one run cost.
type usage struct {
	took, first  time.Duration // until its end, until the first byte
	cpu          time.Duration // of the program
	memory       int64         // the most resident bytes
	bytes, lines int
}

// run runs the program to its end. What it prints is counted and dropped.
func (a *admin) run(stdin []byte, args ...string) usage {
	a.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.program, args...)
	cmd.Env = append(os.Environ(), "BELFRY_REDIS_URL=redis://"+a.address)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		a.b.Fatal(err)
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		a.b.Fatal(err)
	}
	u := usage{}
	for buffer := make([]byte, 64<<10); ; {
		n, err := out.Read(buffer)
		if n > 0 && u.bytes == 0 {
			u.first = time.Since(started)
		}
		u.bytes, u.lines = u.bytes+n, u.lines+bytes.Count(buffer[:n], []byte("\n"))
		if err == io.EOF {
			break
		}
		if err != nil {
			a.b.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		a.b.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	u.took, u.cpu = time.Since(started), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	if rusage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.memory = rusage.Maxrss << 10
	}
	return u
}
