package repolint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// module is the module path, which every import of our own starts with.
const module = "github.com/belfryhq/belfry"

// A source is one parsed Go file.
type source struct {
	path  string // slash-separated, relative to the root of the repository
	dir   string
	lines int
	fset  *token.FileSet
	file  *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) position(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	return s.path + ":" + strconv.Itoa(p.Line)
}

// repository parses every Go file of the module.
func repository(t *testing.T) []source {
	t.Helper()
	root := rootDir(t)
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		out = append(out, source{path: rel, dir: filepath.ToSlash(filepath.Dir(rel)),
			lines: strings.Count(string(text), "\n"), fset: fset, file: file})
		return nil
	})
	if err != nil {
		t.Fatalf("reading the repository: %v", err)
	}
	if len(out) < 20 {
		t.Fatalf("found %d Go files under %s; the walk must be wrong", len(out), root)
	}
	return out
}

func rootDir(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}
