package repolint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

func TestEveryPackageHasADoc(t *testing.T) {
	documented, seen := map[string]bool{}, map[string]string{}
	for _, s := range repository(t) {
		if s.isTest() {
			continue
		}
		seen[s.dir] = s.path
		if s.file.Doc != nil && len(s.file.Doc.Text()) > 20 {
			documented[s.dir] = true
		}
	}
	for dir, file := range seen {
		if !documented[dir] {
			t.Errorf("%s has no package doc (seen %s): a reader starts there", dir, file)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, s := range repository(t) {
		if s.isTest() || s.file.Name.Name == "main" {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
					t.Errorf("%s: %s has no docstring", s.position(d), d.Name.Name)
				}
			case *ast.GenDecl:
				undocumentedSpecs(t, s, d)
			}
		}
	}
}

func undocumentedSpecs(t *testing.T, s source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch x := spec.(type) {
		case *ast.TypeSpec:
			if x.Name.IsExported() && x.Doc == nil && d.Doc == nil {
				t.Errorf("%s: type %s has no docstring", s.position(x), x.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range x.Names {
				if name.IsExported() && x.Doc == nil && d.Doc == nil && x.Comment == nil {
					t.Errorf("%s: %s has no docstring", s.position(x), name.Name)
				}
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	name, ok := typ.(*ast.Ident)
	return ok && name.IsExported()
}

// Limits: a function that does not fit a screen is read less well, a file of
// several hundred lines is two files. The 90th percentile keeps the habit, the
// maximum allows the odd table.
const (
	maxFunction = 100
	p90Function = 40
	maxFile     = 500
	maxTestFile = 800
)

func TestFunctionsAndFilesStaySmall(t *testing.T) {
	var sizes []int
	for _, s := range repository(t) {
		limit := maxFile
		if s.isTest() || s.dir == "internal/storetest" { // a test in all but name
			limit = maxTestFile
		}
		if s.lines > limit {
			t.Errorf("%s has %d lines, at most %d: split it by what it is about", s.path, s.lines, limit)
		}
		if s.isTest() {
			continue
		}
		for _, decl := range s.file.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Body == nil {
				continue
			}
			n := s.fset.Position(d.End()).Line - s.fset.Position(d.Pos()).Line + 1
			sizes = append(sizes, n)
			if n > maxFunction {
				t.Errorf("%s: %s has %d lines, at most %d", s.position(d), d.Name.Name, n, maxFunction)
			}
		}
	}
	sort.Ints(sizes)
	if p90 := sizes[len(sizes)*9/10]; p90 > p90Function {
		t.Errorf("the 90th percentile of function lengths is %d lines, at most %d", p90, p90Function)
	}
}

// banned calls, by directory prefix ("" is everywhere).
var banned = []struct{ dir, call, reason string }{
	{"pkg/schedule", "time.Now", "what fires when depends on an argument, not on a clock"},
	{"pkg/schedule", "time.Since", "what fires when depends on an argument, not on a clock"},
	{"pkg/schedule", "time.Until", "what fires when depends on an argument, not on a clock"},
	{"pkg", "log.Fatal", "a library returns errors"},
	{"pkg", "log.Printf", "a library logs through the *slog.Logger it was given"},
	{"pkg", "fmt.Println", "a library prints nothing"},
	{"pkg", "fmt.Printf", "a library prints nothing"},
	{"pkg", "os.Exit", "only main ends the process"},
	{"internal", "log.Fatal", "only main ends the process"},
	{"internal", "os.Exit", "only main ends the process"},
}

// exitAllowed lists files of internal that may end the process, with reasons.
var exitAllowed = map[string]string{
	"internal/redistest": "TestMain helper",
	"internal/proctest":  "a process of a test ends with its test",
	"internal/gendocs":   "a program of its own",
	"internal/recording": "a program of its own",
}

func TestBannedCalls(t *testing.T) {
	for _, s := range repository(t) {
		if s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := selector(call.Fun)
			for _, rule := range banned {
				if name == rule.call && under(s.dir, rule.dir) && exitAllowed[s.dir] == "" {
					t.Errorf("%s: %s: %s", s.position(call), name, rule.reason)
				}
			}
			return true
		})
	}
}

func TestKeysAreBuiltInOnePlace(t *testing.T) {
	for _, s := range repository(t) {
		if s.isTest() || s.path == "pkg/redisstore/keys.go" || s.dir == "internal/repolint" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if ok && lit.Kind == token.STRING && strings.Contains(lit.Value, "belfry:{") {
				t.Errorf("%s: keys are built in pkg/redisstore/keys.go, so that hash tags are never forgotten", s.position(lit))
			}
			return true
		})
	}
}

func TestNoCatchAllPackages(t *testing.T) {
	for _, s := range repository(t) {
		switch filepath.Base(s.dir) {
		case "util", "utils", "common", "base", "types", "helpers", "misc":
			t.Errorf("%s: a package is named after what it does", s.dir)
		}
	}
}

func TestPackagesHaveNoInitSideEffects(t *testing.T) {
	for _, s := range repository(t) {
		if s.isTest() {
			continue
		}
		for _, decl := range s.file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
				t.Errorf("%s: no init: importing a package must do nothing", s.position(d))
			}
		}
	}
}

// leaks finds what must not reach a tracked file: loose ends, and paths of the
// machine that the checkout is on, its own and those beside it.
func leaks(root string) *regexp.Regexp {
	beside := regexp.QuoteMeta(filepath.Dir(root)) + "/(" + regexp.QuoteMeta(filepath.Base(root)) + "|shared)"
	return regexp.MustCompile(beside + `|TODO\b|FIXME\b|XXX\b`)
}

func TestNoMachinePathsAndNoLooseEnds(t *testing.T) {
	root := rootDir(t)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "scripts/lua/*.lua", "scripts/lua/lib/*.lua", "Makefile", ".ci/run", "docker-compose.yml", "Dockerfile"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			reportLeaks(t, root, f)
		}
	}
	for _, s := range repository(t) {
		if s.dir != "internal/repolint" {
			reportLeaks(t, root, filepath.Join(root, s.path))
		}
	}
}

func reportLeaks(t *testing.T, root, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := leaks(root)
	for i, line := range strings.Split(string(text), "\n") {
		if m := found.FindString(line); m != "" {
			t.Errorf("%s:%d: %q: finish it, or open an issue", strings.TrimPrefix(path, root+"/"), i+1, m)
		}
	}
}

func under(dir, prefix string) bool {
	return prefix == "" || dir == prefix || strings.HasPrefix(dir, prefix+"/")
}

func selector(e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + sel.Sel.Name
}
