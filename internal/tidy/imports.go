package tidy

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// findLocalImports reports imports of this repository's packages in production
// code for which why returns a reason.
func (r *Repo) findLocalImports(why func(from, to string) string) []Problem {
	var out []Problem
	for _, f := range r.goFiles(production) {
		for _, spec := range f.Go.Imports {
			to, ok := localDir(importPath(spec))
			if !ok {
				continue
			}
			if reason := why(f.Dir, to); reason != "" {
				out = append(out, r.at(f, spec.Pos(), "%s imports %s: %s", shown(f.Dir), shown(to), reason))
			}
		}
	}
	return out
}

func importPath(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, "`\"") }

func shown(dir string) string {
	if dir == "" {
		return "the root package"
	}
	return dir
}

// findUpwardImports reports imports against the direction cmd, payments,
// concepts, root and clock.
func findUpwardImports(r *Repo) []Problem {
	return r.findLocalImports(func(from, to string) string {
		var above []string
		switch {
		case from == "" || from == "clock":
			return "it stands below everything else"
		case isBelow(from, driverRoots): // payments declares the interfaces of its stores
			above = []string{"worker", "cmd", "examples"}
		case inTree(from, concepts), inTree(from, driverRoots):
			above = []string{"payments", "worker", "cmd", "examples"}
		case inTree(from, []string{"worker"}): // payments has loops made
			above = []string{"payments", "cmd", "examples"}
		case inTree(from, []string{"payments"}):
			above = []string{"cmd", "examples"}
		default:
			return ""
		}
		if inTree(to, above) {
			return "imports point the other way"
		}
		if driver(to) != "" && !isBelow(from, driverRoots) {
			return "declare the interface here and let cmd hand in the driver"
		}
		return ""
	})
}

// findDriverImports reports drivers that import other drivers.
func findDriverImports(r *Repo) []Problem {
	return r.findLocalImports(func(from, to string) string {
		if a, b := driver(from), driver(to); a != "" && b != "" && a != b {
			return "drivers do not know each other"
		}
		return ""
	})
}

// findSimImports reports production code that knows the simulator.
func findSimImports(r *Repo) []Problem {
	return r.findLocalImports(func(from, to string) string {
		if inTree(to, []string{"sim"}) && !inTree(from, []string{"cmd", "sim"}) {
			return "production code knows nothing of the simulator"
		}
		return ""
	})
}

// findTestImports reports production code that imports testing or a suite.
func findTestImports(r *Repo) []Problem {
	var out []Problem
	for _, f := range r.goFiles(production) {
		for _, spec := range f.Go.Imports {
			p := importPath(spec)
			dir, local := localDir(p)
			if p == "testing" || strings.HasPrefix(p, "testing/") || strings.HasPrefix(p, "net/http/httptest") || local && suite(dir) {
				out = append(out, r.at(f, spec.Pos(), "%s is for tests", p))
			}
		}
	}
	return out
}

var (
	moduleLine  = regexp.MustCompile(`^module\s+(\S+)`)
	requireLine = regexp.MustCompile(`^\s*require\b`)
	useLine     = regexp.MustCompile(`^\s*(?:use\s+)?(\.\S*)\s*(?://.*)?$`)
)

// findRootRequirements reports requirements of the root module.
func findRootRequirements(r *Repo) []Problem {
	f := r.file("go.mod")
	if f == nil {
		return nil
	}
	var out []Problem
	for i, line := range f.Lines {
		if requireLine.MatchString(line) {
			out = append(out, Problem{File: f.Path, Line: i + 1, What: "put what needs another module into a module of its own"})
		}
	}
	return out
}

// findModulePaths reports modules whose path is not the root's plus their folder
// and modules that go.work does not list.
func findModulePaths(r *Repo) []Problem {
	listed := map[string]bool{}
	work := r.file("go.work")
	if work != nil {
		for _, line := range work.Lines {
			if m := useLine.FindStringSubmatch(line); m != nil {
				listed[path.Join(m[1])] = true
			}
		}
	}
	var out []Problem
	for _, f := range r.Files {
		if path.Base(f.Path) != "go.mod" {
			continue
		}
		want := path.Join(rootModule, f.Dir)
		for i, line := range f.Lines {
			if m := moduleLine.FindStringSubmatch(line); m != nil && m[1] != want {
				out = append(out, Problem{File: f.Path, Line: i + 1, What: "the module's path should be " + want})
			}
		}
		if work != nil && !listed[path.Join(".", f.Dir)] {
			out = append(out, Problem{File: f.Path, Line: 1, What: "go.work does not list this module"})
		}
	}
	return out
}
