package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
)

var tapLine = regexp.MustCompile(`^( *)(ok|not ok) \d+(?: - (.*?))?(?: # (?i:(skip))\b *(.*))?$`)

// readTAP reads the Test Anything Protocol as node's reporter writes it: the
// sub-tests of a test stand above it, indented. It prints failures with their
// details and a line with the counts.
func readTAP(in io.Reader, out io.Writer) []Result {
	var results []Result
	type open struct{ any, failed bool }
	below := map[int]open{} // by indentation: what was seen below since the last test there
	detail := -1            // indentation of the failure whose details are being read
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		m := tapLine.FindStringSubmatch(line)
		if m == nil {
			if detail >= 0 && strings.HasPrefix(line, strings.Repeat(" ", detail+2)) {
				fmt.Fprintln(out, line)
			}
			continue
		}
		detail = -1
		indent := len(m[1])
		r := Result{Test: m[3], Outcome: Passed}
		switch {
		case m[4] != "":
			r.Outcome, r.Reason = Skipped, m[5]
		case m[2] == "not ok":
			r.Outcome, detail = Failed, indent
			fmt.Fprintln(out, line)
		}
		children := below[indent]
		delete(below, indent)
		for i := range indent {
			o := below[i]
			below[i] = open{true, o.failed || r.Outcome == Failed}
		}
		if !children.any || r.Outcome == Failed && !children.failed {
			results = append(results, r)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(out, "testcount:", err)
		results = append(results, Result{Test: "(output cut short)", Outcome: Failed})
	}
	fmt.Fprintln(out, count(results))
	return results
}
