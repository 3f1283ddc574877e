package main

import (
	"regexp"
	"slices"
	"strings"
)

// Outcome is how a test ended.
type Outcome string

// The outcomes of a test.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"
	Skipped Outcome = "skip"
)

// Result is one counted test.
type Result struct {
	Package string
	Test    string // "" when the package failed and no test of it did
	Outcome Outcome
	Reason  string // of a skip
}

// Module is all results of one Go module, or of another test runner.
type Module struct {
	Name    string
	Results []Result
}

// leaves keeps the results that count, out of those of one package: tests without
// sub-tests, and tests that failed although no sub-test did.
func leaves(all []Result) []Result {
	parents, blamed := map[string]bool{}, map[string]bool{}
	for _, r := range all {
		for name := r.Test; ; {
			i := strings.LastIndexByte(name, '/')
			if i < 0 {
				break
			}
			name = name[:i]
			parents[name] = true
			blamed[name] = blamed[name] || r.Outcome == Failed
		}
	}
	return slices.DeleteFunc(all, func(r Result) bool {
		return parents[r.Test] && (r.Outcome != Failed || blamed[r.Test])
	})
}

var (
	driverElement = regexp.MustCompile(`^(store|queue|push|psp|window)=([\w.+-]+)$`)
	driverFolder  = regexp.MustCompile(`/(store|queue)/(\w+)(?:/|$)`)
)

// knownDrivers are shown even when no test ran on them: a zero is news.
var knownDrivers = []string{
	"store=memory", "store=sqlite", "store=postgres", "store=postgres-pooled",
	"queue=memory", "queue=nats", "queue=nats-server",
}

// drivers returns the drivers that a test ran on.
func (r Result) drivers() []string {
	var out []string
	for element := range strings.SplitSeq(r.Test, "/") {
		for part := range strings.SplitSeq(element, ",") {
			if m := driverElement.FindStringSubmatch(part); m != nil && !slices.Contains(out, m[0]) {
				out = append(out, m[0])
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	m := driverFolder.FindStringSubmatch(r.Package)
	if m == nil || m[2] == "internal" || strings.HasSuffix(m[2], "test") {
		return nil
	}
	return []string{m[1] + "=" + m[2]}
}

// missingService reports whether a test was skipped for want of a service.
func (r Result) missingService() bool {
	return r.Outcome == Skipped &&
		(strings.Contains(r.Reason, "services.sh") || strings.Contains(r.Reason, "RETRYPROOF_TEST_"))
}
