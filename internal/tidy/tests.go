package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

var skipReason = regexp.MustCompile(`services\.sh|RETRYPROOF_TEST_|apt-get`)

// findSilentSkips reports tests that skip without saying how to get what they
// need. Missing services are the business of the package skipPlace.
func findSilentSkips(r *Repo) []Problem {
	var out []Problem
	for _, f := range r.goFiles(func(f *File) bool { return f.Dir != skipPlace }) {
		if imports(f.Go)["testing"] == "" {
			continue
		}
		ast.Inspect(f.Go, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(sel.Sel.Name, "Skip") {
				return true
			}
			switch sel.Sel.Name {
			case "Skip", "Skipf", "SkipNow":
				if _, plain := sel.X.(*ast.Ident); plain && !skipReason.MatchString(literals(call)) {
					out = append(out, r.at(f, call.Pos(), "use %s, or say how to get what is missing", skipPlace))
				}
			}
			return true
		})
	}
	return out
}

// literals joins the string literals inside an expression.
func literals(n ast.Node) string {
	var b strings.Builder
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			b.WriteString(lit.Value)
		}
		return true
	})
	return b.String()
}

// findSleeps reports time.Sleep, time.Tick and a wait for time.After in tests and
// suites, except inside a call of testing/synctest, where they are on a fake clock.
// A case of a select may wait for time.After: it bounds a wait for something else.
func findSleeps(r *Repo) []Problem {
	var out []Problem
	for _, f := range r.goFiles(func(f *File) bool { return f.Test || suite(f.Dir) }) {
		names := imports(f.Go)
		bounds := map[ast.Node]bool{} // receives of a select
		ast.Inspect(f.Go, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if p, _ := selected(n.Fun, names); p == "testing/synctest" {
					return false
				}
			case *ast.CommClause:
				switch receive := n.Comm.(type) {
				case *ast.ExprStmt:
					bounds[receive.X] = true
				case *ast.AssignStmt:
					bounds[receive.Rhs[0]] = true
				}
			}
			if what := sleep(n, names); what != "" && !bounds[n] {
				out = append(out, r.at(f, n.Pos(), "%s: use a fake clock or testing/synctest", what))
			}
			return true
		})
	}
	return out
}

// sleep names what makes a test wait for the machine's clock, or "".
func sleep(n ast.Node, names map[string]string) string {
	if receive, ok := n.(*ast.UnaryExpr); ok && receive.Op == token.ARROW {
		if call, ok := receive.X.(*ast.CallExpr); ok {
			if p, name := selected(call.Fun, names); p == "time" && name == "After" {
				return "<-time.After"
			}
		}
	}
	if p, name := selected(n, names); p == "time" && (name == "Sleep" || name == "Tick") {
		return "time." + name
	}
	return ""
}

const casesFile = "docs/CASES.md"

var (
	caseRow     = regexp.MustCompile(`^\|\s*(\d+)\s*\|\s*([^|]*?)\s*\|`)
	caseComment = regexp.MustCompile(`//.*?\bcases? (\d+(?:(?:, | and )\d+)*)`)
	number      = regexp.MustCompile(`\d+`)
)

// findUntestedCases reports rows "| N | built |" of docs/CASES.md that no test
// names in a comment "// case N", and such comments that name no row.
func findUntestedCases(r *Repo) []Problem {
	table := r.file(casesFile)
	if table == nil {
		return nil
	}
	rows := map[int]bool{}
	for _, line := range table.Lines {
		if m := caseRow.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			rows[n] = true
		}
	}
	var out []Problem
	tested := map[int]bool{}
	for _, f := range r.Files {
		if !testSource(f) {
			continue
		}
		for i, line := range f.Lines {
			for _, n := range caseNumbers(line) {
				tested[n] = true
				if !rows[n] {
					out = append(out, Problem{File: f.Path, Line: i + 1, What: "case " + strconv.Itoa(n) + " is not a row of " + casesFile})
				}
			}
		}
	}
	for i, line := range table.Lines {
		m := caseRow.FindStringSubmatch(line)
		if m == nil || m[2] != "built" {
			continue
		}
		if n, _ := strconv.Atoi(m[1]); !tested[n] {
			out = append(out, Problem{File: casesFile, Line: i + 1, What: "no test has the comment \"// case " + m[1] + "\""})
		}
	}
	return out
}

// testSource reports whether a file holds tests, in Go or in JavaScript.
func testSource(f *File) bool {
	switch path.Ext(f.Path) {
	case ".go":
		return f.Test || suite(f.Dir)
	case ".js", ".mjs":
		return strings.Contains(path.Base(f.Path), ".test.")
	}
	return false
}

// caseNumbers returns the numbers in a comment like "// case 3" or "// cases 3,
// 4 and 5" on the line.
func caseNumbers(line string) []int {
	m := caseComment.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	var out []int
	for _, digits := range number.FindAllString(m[1], -1) {
		if n, err := strconv.Atoi(digits); err == nil {
			out = append(out, n)
		}
	}
	return out
}
