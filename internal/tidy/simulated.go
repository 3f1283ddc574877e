package tidy

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// findGoStatements reports goroutines that are started where the simulator could
// not see them.
func findGoStatements(r *Repo) []Problem {
	var out []Problem
	r.inspect(production, func(f *File, n ast.Node) {
		if g, ok := n.(*ast.GoStmt); ok && !mayStartGoroutines(f.Dir) {
			out = append(out, r.at(f, g.Pos(), "return from RunOnce instead; only worker starts loops"))
		}
	})
	return out
}

func mayStartGoroutines(dir string) bool {
	return !simulated(dir) && (inTree(dir, goStatementTrees) || driver(dir) != "")
}

// findChannels reports channels and select statements in simulated code: which
// ready case runs next is not the scheduler's choice, and a receive never
// returns to it.
func findChannels(r *Repo) []Problem {
	var out []Problem
	r.inspect(simulatedCode, func(f *File, n ast.Node) {
		what := ""
		switch n := n.(type) {
		case *ast.SelectStmt:
			what = "select statement"
		case *ast.ChanType:
			what = "channel type"
		case *ast.SendStmt:
			what = "channel send"
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				what = "channel receive"
			}
		}
		if what != "" {
			out = append(out, r.at(f, n.Pos(), "%s", what))
		}
	})
	return out
}

// findTime reports uses of the machine's clock in simulated code and in the loops.
func findTime(r *Repo) []Problem {
	return r.findSelected(clockedCode, "use the clock.Clock", map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	})
}

// findContext reports deadlines on the machine's clock and callbacks on
// goroutines of their own in simulated code.
func findContext(r *Repo) []Problem {
	return r.findSelected(simulatedCode, "use Clock.WithTimeout", map[string][]string{
		"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
	})
}

// findSync reports parts of package sync and runtime in simulated code that
// block, start goroutines, or iterate in an order of their own.
func findSync(r *Repo) []Problem {
	return r.findSelected(simulatedCode, "it blocks, schedules or has no order", map[string][]string{
		"sync":    {"Cond", "NewCond", "WaitGroup", "Map"},
		"runtime": {"Gosched", "Goexit"},
	})
}

// findSelected reports the names of other packages in the files that keep accepts,
// called or not.
func (r *Repo) findSelected(keep func(*File) bool, hint string, banned map[string][]string) []Problem {
	var out []Problem
	for _, f := range r.goFiles(keep) {
		names := imports(f.Go)
		if p, ok := names["."]; ok && banned[p] != nil {
			out = append(out, r.at(f, f.Go.Name.Pos(), "dot import of %s", p))
		}
		ast.Inspect(f.Go, func(n ast.Node) bool {
			if p, name := selected(n, names); p != "" && slices.Contains(banned[p], name) {
				out = append(out, r.at(f, n.Pos(), "%s.%s: %s", p, name, hint))
			}
			return true
		})
	}
	return out
}

// findRandom reports randomness in simulated code that does not come from a
// generator with a given seed.
func findRandom(r *Repo) []Problem {
	seeded := []string{ // what needs a seed or a source, and the types
		"New", "NewPCG", "NewChaCha8", "NewZipf", "NewSource",
		"Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf",
	}
	var out []Problem
	for _, f := range r.goFiles(simulatedCode) {
		names := imports(f.Go)
		for _, spec := range f.Go.Imports {
			p := strings.Trim(spec.Path.Value, "`\"")
			if p == "crypto/rand" || p == "hash/maphash" {
				out = append(out, r.at(f, spec.Pos(), "%s cannot be seeded", p))
			}
			if spec.Name != nil && spec.Name.Name == "." && strings.HasPrefix(p, "math/rand") {
				out = append(out, r.at(f, spec.Pos(), "dot import of %s", p))
			}
		}
		ast.Inspect(f.Go, func(n ast.Node) bool {
			p, name := selected(n, names)
			if (p == "math/rand" || p == "math/rand/v2") && !slices.Contains(seeded, name) {
				out = append(out, r.at(f, n.Pos(), "%s.%s draws from the global generator", p, name))
			}
			return true
		})
	}
	return out
}

var orderComment = regexp.MustCompile(`//\s*order: \S`)

// findMapOrder reports iterations over maps in simulated code. Sort the keys, as
// in slices.Sorted(maps.Keys(m)), or say on the line or the line above why the
// order cannot show: "// order: <reason>". What cannot be told from a map needs
// the comment too.
func findMapOrder(r *Repo) []Problem {
	var out []Problem
	infos := map[string]*types.Info{}
	for _, f := range r.goFiles(simulatedCode) {
		if infos[f.Dir] == nil {
			infos[f.Dir] = r.types.infoOf(f.Dir)
		}
		names := imports(f.Go)
		sorted := map[ast.Node]bool{} // arguments whose order is lost in a sort
		ast.Inspect(f.Go, func(n ast.Node) bool {
			what := ""
			switch n := n.(type) {
			case *ast.RangeStmt:
				what = unordered(infos[f.Dir].TypeOf(n.X))
			case *ast.CallExpr:
				p, name := selected(n.Fun, names)
				if p == "slices" && strings.HasPrefix(name, "Sorted") && len(n.Args) > 0 {
					sorted[n.Args[0]] = true
				}
				if p == "maps" && slices.Contains([]string{"All", "Keys", "Values"}, name) && !sorted[n] {
					what = "maps." + name + " outside slices.Sorted"
				}
			}
			if what != "" && !f.hasOrderComment(r.line(n.Pos())) {
				out = append(out, r.at(f, n.Pos(), "%s: sort first, or say why with \"// order: \"", what))
			}
			return true
		})
	}
	return out
}

// unordered says what makes ranging over a value of type t unrepeatable, or "".
func unordered(t types.Type) string {
	if t == nil {
		return "range over a value of unknown type"
	}
	if _, ok := t.(*types.TypeParam); ok {
		return "range over a type parameter"
	}
	switch u := t.Underlying().(type) {
	case *types.Map:
		return "range over a map"
	case *types.Chan:
		return "range over a channel"
	case *types.Basic:
		if u.Kind() == types.Invalid {
			return "range over a value of unknown type"
		}
	}
	return ""
}

// hasOrderComment reports whether the line, or the one above, carries a reason.
func (f *File) hasOrderComment(line int) bool {
	for _, l := range []int{line, line - 1} {
		if l >= 1 && l <= len(f.Lines) && orderComment.MatchString(f.Lines[l-1]) {
			return true
		}
	}
	return false
}
