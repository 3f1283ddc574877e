package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/retryproof/retryproof/internal/spelling"
	"github.com/retryproof/retryproof/sim/story"
)

// storyCommand plays the story of one payment and its branches in virtual time.
type storyCommand struct {
	List storyListCommand `cmd:"" help:"List the branches and the parameters."`
	Run  storyRunCommand  `cmd:"" help:"Play one branch, or all; exit 1 when an expectation fails."`
}

// storyListCommand lists what there is.
type storyListCommand struct {
	Format string `help:"text or json." enum:"text,json" default:"text"`
}

// Run prints the branches and the parameters.
func (c *storyListCommand) Run(out output) error {
	if c.Format == "json" {
		return json.NewEncoder(out.stdout).Encode(map[string]any{"branches": story.List(), "parameters": story.Parameters()})
	}
	group := ""
	for _, b := range story.List() {
		if b.Group != group {
			group = b.Group
			fmt.Fprintf(out.stdout, "%s\n", group)
		}
		line := fmt.Sprintf("  %-17s %s", b.ID, b.Title)
		if b.NotYet != "" {
			line += " — not yet: " + b.NotYet
		}
		fmt.Fprintln(out.stdout, line)
	}
	fmt.Fprintln(out.stdout, "Parameters, for --set name=value; times in seconds or with ms, s, min, h")
	for _, p := range story.Parameters() {
		fmt.Fprintf(out.stdout, "  %-17s %-8s %-12s %s\n", p.Name, p.Default, p.Unit, p.About)
	}
	return nil
}

// storyRunCommand plays branches.
type storyRunCommand struct {
	Branch string   `arg:"" name:"ID" help:"A branch's id, or all; story list shows them."`
	Set    []string `help:"Change a constant of the story; may be repeated." placeholder:"NAME=VALUE" sep:"none"`
	Brief  bool     `help:"Print the table only, a line per branch."`
	Format string   `help:"text or json." enum:"text,json" default:"text"`
}

// Run plays and prints. JSON is one object per branch, a line each.
func (c *storyRunCommand) Run(out output) error {
	if c.Brief && c.Format == "json" {
		return misuse{errors.New("--brief is for --format text: in JSON a branch is one line already")}
	}
	results, left, err := c.play()
	var wrong *story.MisuseError
	switch {
	case errors.As(err, &wrong):
		return misuse{c.suggest(wrong)}
	case err != nil:
		return err
	}
	for _, b := range left {
		fmt.Fprintln(out.stderr, "retryproof: not played:", b.NotYet)
	}
	return c.print(out, results)
}

// print fails when an expectation did.
func (c *storyRunCommand) print(out output, results []story.Result) error {
	var err error
	encoder := json.NewEncoder(out.stdout)
	encoder.SetEscapeHTML(false)
	var failed []string
	for i := range results {
		r := &results[i]
		switch {
		case c.Format == "json":
			err = errors.Join(err, encoder.Encode(r))
		case !c.Brief:
			r.Text(out.stdout)
		}
		for _, check := range r.Checks {
			if !check.OK {
				failed = append(failed, fmt.Sprintf("%s: %s is %s, expected %s", r.ID, check.What, check.Got, check.Want))
			}
		}
	}
	if (c.Branch == "all" || c.Brief) && c.Format == "text" {
		story.Summary(out.stdout, results)
		fmt.Fprintln(out.stdout, "✓ means that the branch came out as predicted, harm included: it does not say that the design is safe.")
		if !c.Brief {
			fmt.Fprintln(out.stdout, "--brief prints this table only.")
		}
	}
	if len(failed) > 0 {
		return errors.Join(err, fmt.Errorf("story: %d expectations failed: %s", len(failed), strings.Join(failed, "; ")))
	}
	return err
}

func (c *storyRunCommand) play() ([]story.Result, []story.Branch, error) {
	if c.Branch == "all" {
		return story.RunAll(c.Set...)
	}
	r, err := story.Run(c.Branch, c.Set...)
	return []story.Result{r}, nil, err
}

// suggest names the branch that was meant, before the list of all.
func (c *storyRunCommand) suggest(wrong *story.MisuseError) error {
	before, list, unknown := strings.Cut(wrong.What, "; there are: ")
	nearest, least := "", 1+len(c.Branch)/3
	for _, b := range append(story.List(), story.Branch{ID: "all"}) {
		if d := spelling.Distance(c.Branch, b.ID); d <= least && b.NotYet == "" {
			nearest, least = b.ID, d-1 // the first of those that are equally near
		}
	}
	if !unknown || nearest == "" || !strings.HasPrefix(before, "there is no branch ") {
		return wrong
	}
	return reworded{fmt.Sprintf("%s; did you mean %s? There are: %s", before, nearest, list), wrong}
}
