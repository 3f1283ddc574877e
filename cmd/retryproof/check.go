package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/retryproof/retryproof/check"
)

// checkCommand checks what can be checked without running anything of it.
type checkCommand struct {
	Config checkConfigCommand `cmd:"" help:"Check the settings of a whole path against each other: the two formulas, leases, windows, memories. Exit 1 when one is refused."`
}

// checkConfigCommand checks the settings of a path.
type checkConfigCommand struct {
	File   string `arg:"" name:"FILE" help:"A JSON file, or - for standard input; examples/check/payments.json shows every member."`
	Format string `help:"text or json." enum:"text,json" default:"text"`
}

// Run prints what fails and what holds; refused settings end it with an error.
func (c *checkConfigCommand) Run(out output) error {
	file, err := c.read(os.Stdin)
	if err != nil {
		return misuse{err}
	}
	config, err := check.Parse(file)
	if err != nil {
		return misuse{fmt.Errorf("%s: %w", c.File, withoutPackage(err))}
	}
	report := config.Report()
	refused := report.Refused()
	if c.Format == "json" {
		encoder := json.NewEncoder(out.stdout)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(struct {
			File string `json:"file"`
			OK   bool   `json:"ok"`
			check.Report
		}{c.File, len(refused) == 0, report})
	} else {
		printReport(out.stdout, c.File, report)
	}
	if len(refused) == 0 {
		return err
	}
	codes := make([]string, 0, len(refused))
	for _, f := range refused {
		codes = append(codes, f.Code)
	}
	return errors.Join(err, fmt.Errorf("check: %s: %d refused: %s", c.File, len(refused), strings.Join(codes, ", ")))
}

// read reads one byte more than check.Parse takes, so that it can say so.
func (c *checkConfigCommand) read(stdin io.Reader) ([]byte, error) {
	from := stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, fmt.Errorf("%w (check config takes a JSON file, or - for standard input)", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		from = f
	}
	file, err := io.ReadAll(io.LimitReader(from, check.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%w (check config takes a JSON file, or - for standard input)", err)
	}
	return file, nil
}

func printReport(w io.Writer, file string, r check.Report) {
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%-8s %s: %s\n         %s\n         %s\n", f.Severity, f.Code, f.Formula, f.Numbers, f.Harm)
	}
	for _, h := range r.Held {
		fmt.Fprintf(w, "%-8s %s: %s\n         %s\n", "holds", h.Code, h.Formula, h.Numbers)
	}
	if len(r.NotDescribed) > 0 {
		fmt.Fprintf(w, "nothing is said of: %s\n", strings.Join(r.NotDescribed, ", "))
	}
	refused := len(r.Refused())
	fmt.Fprintf(w, "%s: %d refused, %d warnings, %d hold\n", file, refused, len(r.Findings)-refused, len(r.Held))
}
