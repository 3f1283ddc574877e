package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// counts are the numbers of tests by outcome.
type counts struct{ passed, failed, skipped int }

func count(results []Result) counts {
	var c counts
	for _, r := range results {
		c.add(r)
	}
	return c
}

func (c *counts) add(r Result) {
	switch r.Outcome {
	case Passed:
		c.passed++
	case Failed:
		c.failed++
	case Skipped:
		c.skipped++
	}
}

// String returns the counts in a form that test reports are known by.
func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// report prints all counts and reports whether everything is well. Its last line
// is the total alone.
func report(out io.Writer, modules []Module, broken []string, ci bool) bool {
	var all []Result
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nmodule\tran\tpassed\tfailed\tskipped")
	for _, m := range modules {
		printRow(table, m.Name, count(m.Results))
		all = append(all, m.Results...)
	}
	fmt.Fprintln(table, "\ndriver\tran\tpassed\tfailed\tskipped")
	names, perDriver := countDrivers(all)
	for _, name := range names {
		printRow(table, name, perDriver[name])
	}
	_ = table.Flush() // a failed write to standard output has nowhere to go

	missing := 0
	for _, r := range all {
		switch r.Outcome {
		case Failed:
			fmt.Fprintf(out, "failed: %s %s\n", r.Package, r.Test)
		case Skipped:
			fmt.Fprintf(out, "skipped: %s %s: %s\n", r.Package, r.Test, r.Reason)
		}
		if r.missingService() {
			missing++
		}
	}
	for _, check := range broken {
		fmt.Fprintf(out, "failed check: %s\n", check)
	}
	if ci && missing > 0 {
		fmt.Fprintf(out, "failed check: %d tests were skipped for want of a service, which CI must have\n", missing)
	}
	total := count(all)
	if total.passed == 0 {
		fmt.Fprintln(out, "failed check: no test ran")
	}
	fmt.Fprintf(out, "\n%s\n", total)
	return total.failed == 0 && total.passed > 0 && len(broken) == 0 && (!ci || missing == 0)
}

func printRow(out io.Writer, name string, c counts) {
	fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\n", name, c.passed+c.failed, c.passed, c.failed, c.skipped)
}

// countDrivers counts per driver, known drivers first.
func countDrivers(all []Result) ([]string, map[string]counts) {
	per := map[string]counts{}
	var others []string
	for _, r := range all {
		for _, d := range r.drivers() {
			if !slices.Contains(knownDrivers, d) && !slices.Contains(others, d) {
				others = append(others, d)
			}
			c := per[d]
			c.add(r)
			per[d] = c
		}
	}
	slices.Sort(others)
	return append(slices.Clone(knownDrivers), others...), per
}
