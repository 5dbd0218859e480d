package repolint

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"
)

// reportNumber is the number of a bug report, as tests and comments write it.
var reportNumber = regexp.MustCompile(`B[0-9]{3}`)

// Every bug report of the list has a test that carries its number, in its name
// or in its comment, or says why it has none; and no test carries a number that
// the list does not know.
func TestEveryBugReportHasATest(t *testing.T) {
	tests := map[string][]string{}
	for _, s := range repository(t) {
		if !s.isTest() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			for _, number := range reportNumber.FindAllString(f.Name.Name+" "+f.Doc.Text(), -1) {
				tests[number] = append(tests[number], s.position(f))
			}
		}
	}
	text, err := os.ReadFile("testdata/bugreports.tsv")
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != 3 || !reportNumber.MatchString(row[0]) || row[1] == "" {
			t.Fatalf("bugreports.tsv: %q has not the form NUMBER, title, reason", line)
		}
		listed++
		switch number, reason := row[0], row[2]; {
		case len(tests[number]) == 0 && reason == "":
			t.Errorf("%s (%s): no test carries its number, and no reason is given", number, row[1])
		case len(tests[number]) > 0 && reason != "":
			t.Errorf("%s has the tests %v; take out the reason %q", number, tests[number], reason)
		}
		delete(tests, row[0])
	}
	if listed < 60 {
		t.Errorf("bugreports.tsv lists %d reports; the file must be the wrong one", listed)
	}
	for number, at := range tests {
		t.Errorf("%s is not in bugreports.tsv, but in %v", number, at)
	}
}

// B048: the deployments are told apart, and a test holds each row.
func TestB048EveryDeploymentIsHeldByATest(t *testing.T) {
	known := map[string]bool{}
	for _, s := range repository(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.isTest() {
				known[f.Name.Name] = true
			}
		}
	}
	name := regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	for _, deployment := range []string{"stand-alone Redis", "Sentinel", "Cluster"} {
		row := regexp.MustCompile(`(?m)^\| ` + deployment + `.*$`).FindString(readDoc(t, "docs/OPERATIONS.md"))
		found := name.FindAllStringSubmatch(row, -1)
		if len(found) == 0 {
			t.Errorf("docs/OPERATIONS.md: %s: no test is named in %q", deployment, row)
		}
		for _, m := range found {
			if !known[m[1]] {
				t.Errorf("docs/OPERATIONS.md: %s: there is no %s", deployment, m[1])
			}
		}
	}
}
