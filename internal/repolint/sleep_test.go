package repolint

import (
	"go/ast"
	"testing"
)

// Sleeping in a test is a race or a waste, except in a synctest bubble, where
// it is how virtual time passes.
func TestTestsSleepInBubblesOnly(t *testing.T) {
	byDir := map[string][]source{}
	for _, s := range repository(t) {
		if s.isTest() {
			byDir[s.dir] = append(byDir[s.dir], s)
		}
	}
	for _, sources := range byDir {
		g := newCalls(sources)
		for _, s := range sources {
			for _, decl := range s.file.Decls {
				d, ok := decl.(*ast.FuncDecl)
				if !ok || d.Body == nil || g.inBubble(d.Name.Name, map[string]bool{}) {
					continue
				}
				ast.Inspect(d, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok && selector(call.Fun) == "time.Sleep" {
						t.Errorf("%s: time.Sleep in a test outside a synctest bubble is a race or a waste", s.position(call))
					}
					return true
				})
			}
		}
	}
}

// calls is who calls whom among the functions of a package's tests, by name.
type calls struct {
	callers map[string][]string
	opens   map[string]bool // functions that open a bubble, themselves or through others
}

func newCalls(sources []source) calls {
	g := calls{callers: map[string][]string{}, opens: map[string]bool{}}
	for _, s := range sources {
		for _, decl := range s.file.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Body == nil {
				continue
			}
			ast.Inspect(d.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if selector(call.Fun) == "synctest.Test" {
					g.opens[d.Name.Name] = true
				}
				if name := calledName(call.Fun); name != "" {
					g.callers[name] = append(g.callers[name], d.Name.Name)
				}
				return true
			})
		}
	}
	g.spread()
	return g
}

// spread marks the callers of functions that open a bubble.
func (g calls) spread() {
	for again := true; again; {
		again = false
		for name := range g.opens {
			for _, caller := range g.callers[name] {
				if !g.opens[caller] {
					g.opens[caller], again = true, true
				}
			}
		}
	}
}

// inBubble reports whether the function opens a bubble or is called only from
// functions that do.
func (g calls) inBubble(name string, seen map[string]bool) bool {
	if g.opens[name] || seen[name] {
		return true
	}
	seen[name] = true
	for _, caller := range g.callers[name] {
		if !g.inBubble(caller, seen) {
			return false
		}
	}
	return len(g.callers[name]) > 0
}

// calledName is the last part of what is called, or the empty string.
func calledName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}
