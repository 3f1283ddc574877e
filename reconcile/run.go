package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Remote lists what the other side holds.
type Remote interface {
	// List returns entries that were made in [from, to), in a total order, a page at a
	// time: next is what to pass as after for the next page, empty at the end.
	List(ctx context.Context, from, to time.Time, after string) (page []Entry, next string, err error)
}

// Ledger is what we hold.
type Ledger interface {
	// List is as Remote's, for our records.
	List(ctx context.Context, from, to time.Time, after string) (page []Entry, next string, err error)
	// Look finds one of ours by its reference, whenever it was made.
	Look(ctx context.Context, reference string) (e Entry, found bool, err error)
	// Settle closes one of ours that is not final with what they say of it, with the
	// evidence. It reports false when it is final by now.
	Settle(ctx context.Context, reference string, there Entry) (bool, error)
}

// Config sets a run. The zero value works, and settles nothing.
type Config struct {
	// Slack widens the period on the other side, since a record and what it became
	// are not made at one time. What they made later than that is reported as missing
	// there, or stays unproved: run an older period again. Defaults to 1 h.
	Slack time.Duration
	// Late is how long after our record theirs may be made. Defaults to 1 min.
	Late time.Duration
	// Settle closes what is unknown here and definite there. Defaults to false.
	Settle bool
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	if c.Slack < 0 || c.Late < 0 {
		return fmt.Errorf("reconcile: Slack %v and Late %v must not be negative", c.Slack, c.Late)
	}
	return nil
}

// Report is the result of a run.
type Report struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Here and There count the entries that were looked at.
	Here  int `json:"here"`
	There int `json:"there"`
	// Settled counts unknowns that were closed, and Failed those whose closing failed:
	// Difference.Error says why.
	Settled     int          `json:"settled"`
	Failed      int          `json:"failed"`
	Differences []Difference `json:"differences"`
}

// Open reports whether a person has something to look at.
func (r Report) Open() bool {
	for _, d := range r.Differences {
		if !d.Settled {
			return true
		}
	}
	return false
}

// Run compares the entries of [from, to). One of theirs that lies in the period and
// whose record of ours does not is compared with that record; a decline does not close
// it then, since what stands beside it may lie where we did not look.
//
// Errors: the period or the configuration is wrong, or records cannot be read; nothing
// was changed then. What fails later is in the report: an unknown that cannot be closed
// has a Difference.Error and keeps no other from being closed.
func Run(ctx context.Context, ours Ledger, theirs Remote, from, to time.Time, config Config) (Report, error) {
	r := Report{From: from, To: to, Differences: []Difference{}}
	if err := config.Validate(); err != nil {
		return r, err
	}
	if !from.Before(to) {
		return r, errors.New("reconcile: the period ends before it begins")
	}
	slack, late := config.Slack, config.Late
	if slack == 0 {
		slack = time.Hour
	}
	if late == 0 {
		late = time.Minute
	}
	here, err := all(ctx, ours.List, from, to, func(e Entry) string { return e.Reference })
	if err != nil {
		return r, fmt.Errorf("reconcile: our records: %w", err)
	}
	there, err := all(ctx, theirs.List, from.Add(-slack), to.Add(slack), func(e Entry) string { return e.Ref })
	if err != nil {
		return r, fmt.Errorf("reconcile: their records: %w", err)
	}
	known := map[string]bool{}
	for _, e := range here {
		known[e.Reference] = true
	}
	inside := func(e Entry) bool { return !e.At.Before(from) && e.At.Before(to) }
	for _, t := range there {
		if !known[t.Reference] && inside(t) && t.Reference != "" {
			e, found, err := ours.Look(ctx, t.Reference)
			if err != nil {
				return r, fmt.Errorf("reconcile: our records: %w", err)
			}
			if found {
				here, known[t.Reference] = append(here, e), true
			}
		}
	}
	var relevant []Entry
	for _, t := range there { // one outside may belong to a record that one inside has found
		if inside(t) || known[t.Reference] {
			relevant = append(relevant, t)
		}
	}
	r.Here, r.There = len(here), len(relevant)
	// Only around a record of the period itself was a whole slack listed to either side.
	r.Differences = append(r.Differences, compare(here, relevant, late, func(e *Entry) bool { return inside(*e) })...)
	if config.Settle {
		r.settle(ctx, ours)
	}
	return r, nil
}

// settle closes what they know and we do not. One that is refused for good must not
// keep the others open, nor the report from whoever is to read it.
func (r *Report) settle(ctx context.Context, ours Ledger) {
	for i := range r.Differences {
		d := &r.Differences[i]
		if d.Kind != Closable {
			continue
		}
		done, err := false, ctx.Err() // told to stop: begin nothing
		if err == nil {
			done, err = ours.Settle(ctx, d.Here.Reference, *d.There)
		}
		switch {
		case err != nil:
			d.Error = err.Error()
			r.Failed++
		case done:
			d.Settled = true
			r.Settled++
		}
	}
}

// all reads every page. A page that shifts while it is listed shows an entry twice:
// name tells by which name of its side one is known, and what was listed last counts.
func all(ctx context.Context, list func(context.Context, time.Time, time.Time, string) ([]Entry, string, error), from, to time.Time, name func(Entry) string) ([]Entry, error) {
	var out []Entry
	place := map[[2]string]int{} // (reference, name) → where it is in out
	for after := ""; ; {
		page, next, err := list(ctx, from, to, after)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			key := [2]string{e.Reference, name(e)}
			if i, again := place[key]; again && key[1] != "" {
				out[i] = e
				continue
			}
			place[key], out = len(out), append(out, e)
		}
		if next == "" {
			return out, nil
		}
		if next == after {
			return nil, errors.New("a listing did not go on")
		}
		after = next
	}
}

// WriteJSON writes the report as one JSON object.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report as a table.
func (r Report) WriteText(w io.Writer) error {
	failed := ""
	if r.Failed > 0 {
		failed = fmt.Sprintf(", %d could not be", r.Failed)
	}
	if _, err := fmt.Fprintf(w, "%s to %s: %d records here, %d there, %d differences, %d unknowns closed%s\n",
		r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339), r.Here, r.There, len(r.Differences), r.Settled, failed); err != nil {
		return err
	}
	if len(r.Differences) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "kind\treference\tthere\there\twhat") // Flush tells
	for _, d := range r.Differences {
		kind, what := string(d.Kind), d.What
		if d.Settled {
			kind = "closed"
		}
		if d.Error != "" { // joined errors have lines, and the table has one for each
			what += "; closing it failed: " + strings.Join(strings.Fields(d.Error), " ")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", kind, d.reference(), shown(d.There), shown(d.Here), what) // Flush tells
	}
	return t.Flush()
}

func shown(e *Entry) string {
	if e == nil {
		return "–"
	}
	return shownState(e) + " " + amount(e)
}
