package tidy

import (
	"path"
	"slices"
	"strings"
)

// The lists below are the only places that name packages. A new package joins
// them in the commit that creates it: the rule "listed" fails for one in none.

// concepts are the packages, with everything below them, that each make one hop
// safe. They import the root package, clock, each other and the noun packages.
var concepts = []string{
	"check", "deadline", "effect", "httpkey", "inbox", "ledger", "locator", "notify",
	"outbox", "reconcile", "region", "resolve", "saga", "stream", "version",
}

// simulatedTrees run in the simulator, with everything below them.
var simulatedTrees = append([]string{
	"payments", "sim", "internal/backoff", "internal/clip", "internal/spelling",
}, concepts...)

// simulatedDirs run in the simulator; the folders below them are drivers.
var simulatedDirs = []string{
	"", "psp", "psp/emulator", "push", "push/emulator", "push/memory", "queue", "queue/memory",
	"store", "store/memory", "window", "window/memory",
}

// driverRoots hold one driver per sub-folder.
var driverRoots = []string{"store", "queue", "psp", "push", "window"}

// goStatementTrees may start goroutines. Drivers and tests may too.
var goStatementTrees = []string{"worker", "cmd", "examples"}

// clockedTrees may start goroutines, and still ask a clock.Clock for the time.
var clockedTrees = []string{"worker"}

// otherTrees keep the rules for all code and no others.
var otherTrees = []string{
	"clock", "cmd", "entropy", "examples", "js", "web", "worker",
	"internal/durable", "internal/testcount", "internal/testservice", "internal/tidy",
}

// skipPlace is the package that skips or fails a test whose service is missing.
const skipPlace = "internal/testservice"

// exemption lets one file off one rule.
type exemption struct {
	rule, file, reason string
}

// exemptions must each say why. One that excuses nothing is itself a problem.
var exemptions = []exemption{
	{"sim-channel", "sim/context.go", "a context.Context has a Done channel for others; nothing here waits on it"},
}

// inTree reports whether dir is one of the trees or below one.
func inTree(dir string, trees []string) bool {
	return slices.ContainsFunc(trees, func(t string) bool {
		return dir == t || strings.HasPrefix(dir, t+"/")
	})
}

// isBelow reports whether dir is below one of the trees and not one itself.
func isBelow(dir string, trees []string) bool {
	return inTree(dir, trees) && !slices.Contains(trees, dir)
}

// simulated reports whether the package in dir runs in the simulator. Suites
// that judge drivers do not.
func simulated(dir string) bool {
	return !suite(dir) && (inTree(dir, simulatedTrees) || slices.Contains(simulatedDirs, dir))
}

// simulatedCode keeps the production files of simulated packages.
func simulatedCode(f *File) bool { return !f.Test && simulated(f.Dir) }

// clockedCode keeps the production files that must be handed their time.
func clockedCode(f *File) bool {
	return simulatedCode(f) || production(f) && inTree(f.Dir, clockedTrees)
}

// listed reports whether a list says what rules the package in dir keeps.
func listed(dir string) bool {
	return simulated(dir) || inTree(dir, driverRoots) || inTree(dir, simulatedTrees) || inTree(dir, otherTrees)
}

// suite reports whether dir holds test code that is not in _test.go files: an
// element of its path begins or ends with "test", as in store/storetest.
func suite(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(e string) bool {
		return strings.HasSuffix(e, "test") || strings.HasPrefix(e, "test")
	})
}

// production keeps the files that are no tests.
func production(f *File) bool { return !f.Test && !suite(f.Dir) }

func anyFile(*File) bool { return true }

// driver returns the driver that dir belongs to, for example "store/sqlite", or
// "" if it belongs to none.
func driver(dir string) string {
	e := strings.Split(dir, "/")
	if len(e) < 2 || !slices.Contains(driverRoots, e[0]) || e[1] == "internal" || suite(dir) {
		return ""
	}
	return path.Join(e[0], e[1])
}

// localDir returns the folder of a package of this repository, and false for
// every other import path.
func localDir(importPath string) (string, bool) {
	if importPath == rootModule {
		return "", true
	}
	return strings.CutPrefix(importPath, rootModule+"/")
}
