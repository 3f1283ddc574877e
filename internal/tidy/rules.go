package tidy

import (
	"cmp"
	"slices"
)

// Rule is one rule of the repository.
type Rule struct {
	// Name is short and stable: exemptions and test trees refer to it.
	Name string
	// Why is the rule in one sentence.
	Why string
	// Find returns the places that break the rule.
	Find func(*Repo) []Problem
}

// Rules are all rules of the repository.
var Rules = []Rule{
	{"parse", "every Go file parses", findBroken},
	{"listed", "every package is in a list that says what rules it keeps", findUnlisted},
	{"file-length", "a Go file has at most 500 lines", findLongFiles},
	{"function-length", "a function outside tests has at most 70 lines", findLongFunctions},
	{"package-name", "a package's name says what it is for", findEmptyNames},
	{"package-doc", "every package says what it is", findUndocumentedPackages},
	{"doc-comment", "the doc comment of an exported name starts with the name", findUndocumented},
	{"config-field", "the fields of exported configs are documented", findUndocumentedSettings},
	{"unfinished", "what is committed is finished", findUnfinished},
	{"machine-path", "nothing names a folder of one machine", findMachinePaths},
	{"markdown-link", "relative links in Markdown files resolve", findDeadLinks},
	{"markdown-path", "the files that Markdown names in code exist", findDeadPaths},
	{"go-statement", "only worker, cmd, examples, drivers and tests start goroutines", findGoStatements},
	{"sim-channel", "simulated code does not wait on channels", findChannels},
	{"sim-time", "simulated code and the loops ask their clock.Clock for the time", findTime},
	{"sim-context", "simulated code takes deadlines from its clock.Clock", findContext},
	{"sim-random", "simulated code is handed its randomness", findRandom},
	{"sim-sync", "simulated code does not wait on or iterate over package sync", findSync},
	{"sim-map-order", "the order of a map cannot show in simulated code", findMapOrder},
	{"sql-clock", "times, ids and randomness are arguments in SQL", findSQLClocks},
	{"import-direction", "imports point from cmd over payments to concepts to the root", findUpwardImports},
	{"driver-import", "drivers import concepts, never each other", findDriverImports},
	{"sim-import", "only cmd, tests and sim import sim", findSimImports},
	{"test-import", "production code does not import test code", findTestImports},
	{"root-module", "the root module needs the standard library only", findRootRequirements},
	{"module-path", "a module's path follows its folder and go.work lists it", findModulePaths},
	{"skip-message", "a skipped test says how to get what it needs", findSilentSkips},
	{"test-sleep", "tests wait on a fake clock", findSleeps},
	{"cases", "every built row of docs/CASES.md has a test", findUntestedCases},
}

// Check runs all rules and takes the exemptions into account.
func Check(r *Repo) []Problem { return check(r, Rules, exemptions) }

func check(r *Repo, rules []Rule, exempt []exemption) []Problem {
	var out []Problem
	used := make([]bool, len(exempt))
	for _, rule := range rules {
		for _, p := range rule.Find(r) {
			p.Rule = rule.Name
			i := slices.IndexFunc(exempt, func(e exemption) bool {
				return e.rule == p.Rule && e.file == p.File
			})
			if i < 0 {
				out = append(out, p)
				continue
			}
			used[i] = true
		}
	}
	for i, e := range exempt {
		switch {
		case len(e.reason) < 10:
			out = append(out, Problem{File: e.file, Rule: "exemption", What: "the exemption from " + e.rule + " gives no reason"})
		case !used[i]:
			out = append(out, Problem{File: e.file, Rule: "exemption", What: "the exemption from " + e.rule + " excuses nothing: remove it"})
		}
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return out
}
