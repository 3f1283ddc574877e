package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// event is one line of "go test -json"; see "go doc test2json".
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64
	Output      string
	ImportPath  string // of a build
	FailedBuild string // the ImportPath that kept a package from running
}

// packageRun is what is known of one package while it runs.
type packageRun struct {
	name    string
	started []string // tests in the order of their start
	ended   map[string]Outcome
	output  map[string][]string // by test; "" is the package itself
	cached  bool
}

// readGoTest reads a stream of events, prints what is worth reading, and returns
// the results that count. Lines that are no events are passed on.
func readGoTest(in io.Reader, out io.Writer) []Result {
	var results []Result
	runs := map[string]*packageRun{}
	builds := map[string][]string{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			switch {
			case json.Unmarshal([]byte(line), &e) != nil:
				if !strings.HasPrefix(line, "go: downloading ") {
					fmt.Fprint(out, line)
				}
			case e.Action == "build-output":
				builds[e.ImportPath] = append(builds[e.ImportPath], e.Output)
			case e.Package != "":
				p := runs[e.Package]
				if p == nil {
					p = &packageRun{name: e.Package, ended: map[string]Outcome{}, output: map[string][]string{}}
					runs[e.Package] = p
				}
				if p.add(e) {
					results = append(results, p.finish(e, builds[e.FailedBuild], out)...)
					delete(runs, e.Package)
				}
			}
		}
		if err != nil {
			break
		}
	}
	for name := range runs { // go test itself was killed
		fmt.Fprintf(out, "FAIL %s: did not finish\n", name)
		results = append(results, Result{Package: name, Outcome: Failed})
	}
	return results
}

// add takes one event in and reports whether it was the package's last.
func (p *packageRun) add(e event) (last bool) {
	switch e.Action {
	case "run":
		p.started = append(p.started, e.Test)
	case "output":
		p.cached = p.cached || e.Test == "" && strings.Contains(e.Output, "\t(cached)")
		p.output[e.Test] = append(p.output[e.Test], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			return true
		}
		p.ended[e.Test] = Outcome(e.Action)
	}
	return false
}

// finish prints the package's lines and returns its results.
func (p *packageRun) finish(last event, build []string, out io.Writer) []Result {
	var all []Result
	for _, test := range p.started {
		outcome, ended := p.ended[test]
		if !ended {
			outcome = Failed // a panic, or a time limit
		}
		r := Result{Package: p.name, Test: test, Outcome: outcome}
		if outcome == Skipped {
			r.Reason = reason(p.output[test])
		}
		all = append(all, r)
	}
	all = leaves(all)
	if last.Action == "fail" && count(all).failed == 0 {
		all = append(all, Result{Package: p.name, Outcome: Failed})
	}
	if len(all) == 0 {
		return nil // no test files, or none that matches -run
	}
	took := time.Duration(last.Elapsed * float64(time.Second)).Round(100 * time.Millisecond).String()
	if p.cached {
		took = "cached"
	}
	word := "ok  "
	if last.Action == "fail" {
		word = "FAIL"
	}
	fmt.Fprintf(out, "%s %s: %s (%s)\n", word, p.name, count(all), took)
	if last.Action == "fail" {
		p.explain(build, out)
	}
	return all
}

// explain prints the whole output of what failed.
func (p *packageRun) explain(build []string, out io.Writer) {
	text := append([]string(nil), build...)
	for _, test := range p.started {
		if outcome, ended := p.ended[test]; !ended || outcome == Failed {
			text = append(text, p.output[test]...)
		}
	}
	for _, line := range append(text, p.output[""]...) {
		if !strings.HasPrefix(line, "=== ") && strings.TrimSpace(line) != "FAIL" {
			fmt.Fprint(out, "     ", line)
		}
	}
}

// reason joins what a skipped test said, without its file and line.
func reason(output []string) string {
	var parts []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if where, what, ok := strings.Cut(line, ": "); ok && strings.Contains(where, ".go:") {
			line = what
		}
		parts = append(parts, line)
	}
	return strings.Join(parts, " ")
}
