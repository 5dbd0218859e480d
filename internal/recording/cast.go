package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// A castHeader is the first line of an asciicast.
type castHeader struct {
	Version int               `json:"version"`
	Width   int               `json:"width"`
	Height  int               `json:"height"`
	Title   string            `json:"title"`
	Env     map[string]string `json:"env"`
}

// writeCast renders frames as an asciicast of version 2: each frame is drawn
// over the one before. A marker follows each scene.
func writeCast(frames []frame) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(castHeader{Version: 2, Width: columns, Height: rows, Title: "admin against a demo worker", Env: map[string]string{"TERM": "xterm-256color"}})
	if err != nil {
		return nil, err
	}
	for _, f := range frames {
		at := math.Round(f.at.Seconds()*1000) / 1000
		text := "\x1b[H"
		for i, line := range f.lines {
			if i > 0 {
				text += "\r\n"
			}
			text += line + "\x1b[0m\x1b[K"
		}
		if err := e.Encode([]any{at, "o", text + "\x1b[J"}); err != nil {
			return nil, err
		}
		if f.scene {
			if err := e.Encode([]any{at, "m", ""}); err != nil {
				return nil, err
			}
		}
	}
	return b.Bytes(), nil
}

// readCast reads what writeCast wrote.
func readCast(text []byte) (castHeader, []frame, error) {
	var head castHeader
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return head, nil, fmt.Errorf("the cast is empty")
	}
	if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
		return head, nil, fmt.Errorf("the header of the cast: %w", err)
	}
	var frames []frame
	for lines.Scan() {
		var at float64
		var kind, data string
		if err := json.Unmarshal(lines.Bytes(), &[]any{&at, &kind, &data}); err != nil {
			return head, nil, fmt.Errorf("an event of the cast: %w", err)
		}
		switch {
		case kind == "m" && len(frames) > 0:
			frames[len(frames)-1].scene = true
		case kind == "o":
			data = strings.TrimSuffix(strings.TrimPrefix(data, "\x1b[H"), "\x1b[J")
			f := frame{at: time.Duration(math.Round(at*1000)) * time.Millisecond}
			for line := range strings.SplitSeq(data, "\r\n") {
				f.lines = append(f.lines, strings.TrimSuffix(line, "\x1b[0m\x1b[K"))
			}
			frames = append(frames, f)
		}
	}
	return head, frames, lines.Err()
}
