package queue

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// logTo returns a logger without times.
func logTo(buffer *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(buffer, &slog.HandlerOptions{
		Level: slog.LevelInfo,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

func TestAsynqLoggerLimitsRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buffer bytes.Buffer
		l := NewAsynqLogger(logTo(&buffer))
		for i := range 500 {
			l.Error("Dequeue error: dial tcp 127.0.0.1:", 40000+i, ": refused")
			l.Debug("All queues are empty")
			time.Sleep(30 * time.Millisecond)
		}
		l.Fatal("a forged\nlevel=ERROR line")
		want := `level=ERROR msg=asynq text="Dequeue error: dial tcp 127.0.0.1:40000: refused"
level=ERROR msg=asynq text="Dequeue error: dial tcp 127.0.0.1:40334: refused" repeated=333
level=ERROR msg=asynq text="a forged level=ERROR line"
`
		if buffer.String() != want {
			t.Errorf("logged\n%swant\n%s", buffer.String(), want)
		}
	})
}

func TestLoggerMemoryIsBounded(t *testing.T) {
	l := NewRedisLogger(logTo(&bytes.Buffer{}))
	for i := range 10 * maxRemembered {
		l.Printf(t.Context(), "message %s", strings.Repeat("x", i))
	}
	if n := len(l.repeats.seen); n > maxRemembered {
		t.Errorf("%d messages are remembered", n)
	}
}

func TestRedisLoggerFitsGoRedis(t *testing.T) {
	var buffer bytes.Buffer
	l := NewRedisLogger(logTo(&buffer))
	var _ interface {
		Printf(context.Context, string, ...any)
	} = l
	redis.SetLogger(l)
	t.Cleanup(func() { redis.SetLogger(NewRedisLogger(nil)) })
	l.Printf(t.Context(), "pool: %d", 3)
	if got := buffer.String(); got != "level=WARN msg=redis text=\"pool: 3\"\n" {
		t.Errorf("logged %q", got)
	}
}

func TestClip(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", ""},
		{"a  b\n\tc ", "a b c"},
		{"\x1b[31mred\x00", "�[31mred�"},
		{"\xff\xfe", "��"},
		{"‮evil", "�evil"}, // a right-to-left override is not printable
		{"grün 日本", "grün 日本"},
	}
	for _, tt := range tests {
		if got := clip(tt.in, 100); got != tt.want {
			t.Errorf("clip(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	for _, in := range []string{strings.Repeat("日", 100), strings.Repeat("ab ", 100), strings.Repeat("\x00", 5000)} {
		got := clip(in, 50)
		if len(got) > 50 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("clip(%.10q…) = %q (%d bytes)", in, got, len(got))
		}
	}
	if got := clip(fmt.Sprint(strings.Repeat("x", 50)), 50); len(got) != 50 || strings.Contains(got, "…") {
		t.Errorf("a text that fits was cut: %q", got)
	}
}
