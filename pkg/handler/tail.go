package handler

import "sync"

// A tail keeps the last bytes that were written to it.
type tail struct {
	limit int

	mu   sync.Mutex
	kept []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > t.limit {
		p = p[len(p)-t.limit:]
	}
	if over := len(t.kept) + len(p) - t.limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

// bytes returns a copy of what was kept.
func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.kept...)
}

// text returns the last of the output for an error.
func (t *tail) text() string {
	kept := t.bytes()
	if len(kept) > maxText {
		kept = kept[len(kept)-maxText:]
	}
	if len(kept) == 0 {
		return "no output"
	}
	return shorten(string(kept))
}
