package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

const committed = "../../docs/recording/"

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(committed + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The committed recording is a valid cast of the session, and its picture is
// drawn from it.
func TestTheRecordingIsThatOfTheSession(t *testing.T) {
	cast := read(t, "admin.cast")
	head, frames, err := readCast(cast)
	if err != nil {
		t.Fatal(err)
	}
	if head.Version != 2 || head.Width != columns || head.Height != rows {
		t.Errorf("header %+v", head)
	}
	again, err := writeCast(frames)
	if err != nil || !bytes.Equal(again, cast) {
		t.Errorf("the cast is not what its frames are written as: %v", err)
	}
	if !bytes.Equal(drawSVG(scenes(frames)), read(t, "admin.svg")) {
		t.Error("admin.svg is not drawn from admin.cast: make recording")
	}
	shown := scenes(frames)
	if len(shown) != len(session) {
		t.Fatalf("%d scenes of %d steps: make recording", len(shown), len(session))
	}
	for i, one := range session {
		text := sgr.ReplaceAllString(strings.Join(shown[i].lines, "\n"), "")
		if len(one.keys) == 0 && !strings.HasPrefix(strings.ReplaceAll(text, "\n", ""), "$ "+one.line) {
			t.Errorf("scene %d does not show %s: make recording\n%s", i, one.line, text)
		}
		if strings.Contains(text, "error:") || strings.Contains(text, "command not found") {
			t.Errorf("scene %d shows an error:\n%s", i, text)
		}
		if len(shown[i].lines) > rows {
			t.Errorf("scene %d has %d lines", i, len(shown[i].lines))
		}
	}
}

// Nothing in it tells on which machine it was made, and no secret is shown.
func TestTheRecordingTellsNoMachine(t *testing.T) {
	private := regexp.MustCompile(`/(home|root|tmp|work|Users|var|usr)\b|redis://:|@[a-z0-9]+:~`)
	for _, name := range []string{"admin.cast", "admin.svg"} {
		if found := workerID.FindString(string(read(t, name))); found != "" {
			t.Errorf("%s names the worker %s", name, found)
		}
		if found := private.FindString(string(read(t, name))); found != "" {
			t.Errorf("%s holds %q", name, found)
		}
	}
}

func TestThePictureIsXML(t *testing.T) {
	decoder := xml.NewDecoder(bytes.NewReader(read(t, "admin.svg")))
	for {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestPaintingIsDrawn(t *testing.T) {
	picture := string(drawSVG([]frame{{lines: []string{"a \x1b[31mred\x1b[0m <b>", "\x1b[7mchosen\x1b[27m", "\x1b[1;2mtitle"}}}))
	for _, want := range []string{`style="fill: #ff7b72">red</text>`, "&lt;b&gt;", `fill="#c9d1d9"/>`, `font-weight="bold" opacity="0.6">title`} {
		if !strings.Contains(picture, want) {
			t.Errorf("%q is not in\n%s", want, picture)
		}
	}
}

func TestACastIsReadAsItWasWritten(t *testing.T) {
	frames := []frame{{at: 0, lines: []string{"$ "}}, {at: 1500 * time.Millisecond, lines: []string{"$ admin", "\x1b[32mok\x1b[0m", ""}, scene: true}}
	text, err := writeCast(frames)
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := readCast(text)
	if err != nil || len(got) != 2 || got[1].at != frames[1].at || !got[1].scene || strings.Join(got[1].lines, "|") != strings.Join(frames[1].lines, "|") {
		t.Errorf("%+v, %v", got, err)
	}
	if _, _, err := readCast(nil); err == nil {
		t.Error("an empty cast is read")
	}
}
