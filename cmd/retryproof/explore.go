package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/retryproof/retryproof/sim"
)

// exploreCommand runs random worlds.
type exploreCommand struct {
	Seeds      *int     `help:"How many worlds; 1000 by default." placeholder:"1000"`
	From       uint64   `help:"The first seed." default:"1"`
	KeepGoing  bool     `name:"keep-going" help:"Go on after a violation."`
	Store      string   `help:"memory, sqlite or an empty postgres://…" default:"memory"`
	Without    []string `help:"Replace a rule by its naive twin; may be given more than once." placeholder:"RULE"`
	Exhaustive bool     `help:"Instead of random worlds: one fault at every single call of the main line; takes neither --seeds nor --twice, and the memory store only."`
	Twice      bool     `help:"Run every seed twice and compare the traces."`
	Workers    int      `help:"How many worlds at a time; SQL stores take one." default:"2"`
	Format     string   `help:"text or json." enum:"text,json" default:"text"`
}

// exploreReport is what --format json prints.
type exploreReport struct {
	Seeds      int             `json:"seeds"`
	Steps      uint64          `json:"steps"`
	Payments   int             `json:"payments"`
	Violations []sim.Violation `json:"violations"`
	Counts     sim.Counts      `json:"counts"`
	Seconds    float64         `json:"seconds"`
	Store      string          `json:"store"`
	Without    []string        `json:"without"`
	// Hash is a hash over the traces of all seeds, in order.
	Hash string `json:"hash"`
}

// Run explores and prints; a violation is exit code 1.
func (c *exploreCommand) Run(ctx context.Context, out output) error {
	if err := c.check(); err != nil {
		return misuse{err}
	}
	var twins []sim.Twin
	for _, rule := range c.Without {
		t, err := sim.TwinOf(rule)
		if err != nil {
			return misuse{err}
		}
		twins = append(twins, t)
	}
	stores, err := openSimStores(ctx, c.Store)
	if err != nil {
		return err
	}
	defer func() { _ = stores.close() }()
	// Worlds are short-lived garbage; collecting it less often is a fifth faster.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if c.Exhaustive {
		return c.exhaust(ctx, out, twins)
	}
	began := time.Now()
	results, err := c.explore(ctx, out, twins, stores)
	if err != nil {
		return err
	}
	report := c.report(results, time.Since(began))
	if err := c.print(out, report); err != nil {
		return err
	}
	return c.judge(out, results, twins, report)
}

// Help is what explore --help says below its first line.
func (c *exploreCommand) Help() string {
	return "Exit codes: 1 when harm was found, with and without --without; 0 when none was found, also when a rule is off: the last line says so. Also 1 when 1000 worlds or more, with every rule on, never met a kind of fault."
}

// check refuses flags that would silently mean something else.
func (c *exploreCommand) check() error {
	switch {
	case c.worlds() < 1:
		return fmt.Errorf("--seeds %d must be 1 or more", c.worlds())
	case c.Workers < 1:
		return fmt.Errorf("--workers %d must be 1 or more", c.Workers)
	case c.Exhaustive && c.Seeds != nil:
		return errors.New("--exhaustive goes through every call of the main line and takes no --seeds; --from chooses its seed")
	case c.Exhaustive && c.Twice:
		return errors.New("--exhaustive takes no --twice")
	case c.Exhaustive && c.Store != "memory":
		return errors.New("--exhaustive takes no --store: it runs on memory")
	}
	return nil
}

// worlds is how many random worlds there are.
func (c *exploreCommand) worlds() int {
	if c.Seeds == nil {
		return 1000
	}
	return *c.Seeds
}

// verdict is the last line when nothing was found.
func (c *exploreCommand) verdict(tried string) string {
	if len(c.Without) == 0 {
		return "no harm was found"
	}
	return fmt.Sprintf("the harm was NOT found: without %s, nothing went wrong in %s", strings.Join(c.Without, " and "), tried)
}

// explore runs the seeds, several at a time, and returns the results in the order
// of the seeds. It ends at the first violation, unless told to go on.
func (c *exploreCommand) explore(ctx context.Context, out output, twins []sim.Twin, stores *simStores) ([]sim.Result, error) {
	workers := c.Workers
	if !stores.parallel {
		workers = 1
	}
	var (
		mu      sync.Mutex
		next    int
		worlds  = c.worlds()
		last    = worlds
		results = make([]sim.Result, worlds)
		failed  error
		wait    sync.WaitGroup
		told    = time.Now()
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= last || failed != nil || ctx.Err() != nil {
			return 0, false
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			fmt.Fprintf(out.stderr, "… %d of %d seeds\n", next, worlds)
		}
		next++
		return next - 1, true
	}
	for range workers {
		wait.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				r, err := c.one(c.From+uint64(i), twins, stores)
				mu.Lock()
				results[i] = r
				if err != nil && failed == nil {
					failed = err
				}
				if r.Violation != nil && !c.KeepGoing {
					last = min(last, i+1)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return results[:last], failed
}

// one runs one seed, twice when asked to.
func (c *exploreCommand) one(seed uint64, twins []sim.Twin, stores *simStores) (sim.Result, error) {
	run := func() (sim.Result, error) {
		p := sim.PlanOf(seed)
		p.Twins = twins
		s, done, err := stores.fresh()
		if err != nil {
			return sim.Result{}, err
		}
		defer done()
		p.Stores = s
		return sim.Run(p)
	}
	r, err := run()
	if err != nil || !c.Twice {
		return r, err
	}
	again, err := run()
	if err == nil && again.Hash != r.Hash {
		err = fmt.Errorf("seed %d gave two traces: %s and %s", seed, r.Hash, again.Hash)
	}
	return r, err
}

func (c *exploreCommand) report(results []sim.Result, took time.Duration) exploreReport {
	r := exploreReport{Seeds: len(results), Seconds: took.Seconds(), Store: redacted(c.Store), Violations: []sim.Violation{}, Without: c.Without}
	if r.Without == nil {
		r.Without = []string{}
	}
	hash := sim.NewHash()
	for _, one := range results {
		r.Steps += one.Steps
		r.Payments += one.Payments
		r.Counts.Add(one.Counts)
		hash.Add(one.Hash)
		if one.Violation != nil {
			r.Violations = append(r.Violations, *one.Violation)
		}
	}
	r.Hash = hash.String()
	return r
}

func (c *exploreCommand) print(out output, r exploreReport) error {
	if c.Format == "json" {
		return json.NewEncoder(out.stdout).Encode(r)
	}
	rate := float64(r.Payments) / max(r.Seconds, 1e-9)
	fmt.Fprintf(out.stdout, "%d seeds on %s: %d payments, %d steps in %.1f s (%.0f payments/s), trace %s\n", r.Seeds, r.Store, r.Payments, r.Steps, r.Seconds, rate, r.Hash)
	counts, err := json.Marshal(r.Counts)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out.stdout, "met: %s\n", strings.Trim(string(counts), "{}"))
	return err
}

// judge turns violations, and a batch that met too little, into an error.
func (c *exploreCommand) judge(out output, results []sim.Result, twins []sim.Twin, r exploreReport) error {
	if len(r.Violations) == 0 {
		if missing := r.Counts.Missing(); len(missing) > 0 && r.Seeds >= 1000 && len(twins) == 0 {
			return fmt.Errorf("explore: nothing was found, and these never happened: %s", strings.Join(missing, ", "))
		}
		if c.Format == "text" {
			fmt.Fprintln(out.stdout, c.verdict(fmt.Sprintf("%d worlds: try more --seeds, or another --from", r.Seeds)))
		}
		return nil
	}
	for _, one := range results {
		if one.Violation == nil {
			continue
		}
		if c.Format == "text" {
			if err := c.explain(out, one, twins); err != nil {
				return err
			}
		}
		if !c.KeepGoing {
			break
		}
	}
	first := r.Violations[0]
	return fmt.Errorf("explore: %d of %d seeds show harm; the first: %v; repeat it with: %s", len(r.Violations), r.Seeds, first, c.command(first.Seed))
}

// command repeats one seed.
func (c *exploreCommand) command(seed uint64) string {
	s := fmt.Sprintf("retryproof explore --from %d --seeds 1", seed)
	if c.Store != "memory" {
		s += " --store " + redacted(c.Store)
	}
	for _, rule := range c.Without {
		s += " --without " + rule
	}
	return s
}

// explain shrinks a failing run and prints what is left of it.
func (c *exploreCommand) explain(out output, r sim.Result, twins []sim.Twin) error {
	p := sim.PlanOf(r.Seed)
	p.Twins = twins
	s := sim.Shrink(p, r, 400)
	faults, err := s.Faults()
	if err != nil {
		return err
	}
	fmt.Fprintf(out.stdout, "\n%v\n", s.Result.Violation)
	if *s.Result.Violation != *r.Violation {
		fmt.Fprintf(out.stdout, "that is the run with few faults; the seed with all of them shows %s at %.6f s: %s\n", r.Violation.Rule, r.Violation.AtSeconds, r.Violation.What)
	}
	fmt.Fprintf(out.stdout, "enough: %d of %d faults (%d runs)\n", s.FaultsAfter, s.FaultsBefore, s.Runs)
	number := map[int]string{}
	for i, f := range faults {
		number[f.Event.N] = fmt.Sprintf("%d.", i+1)
		line := fmt.Sprintf("%s %s: %s", f.Event.Where, f.Event.What, f.Event.How)
		if f.Late > 0 {
			line += fmt.Sprintf(", %.6f s late", f.Late.Seconds())
		}
		if f.Event.About != "" {
			line += " (" + f.Event.About + ")"
		}
		fmt.Fprintf(out.stdout, "  %2d. at %.6f s: %s\n", i+1, f.Event.At.Seconds(), line)
	}
	fmt.Fprintln(out.stdout, "the run, in virtual seconds, these lines marked:")
	for _, e := range s.Timeline(faults) {
		fmt.Fprintf(out.stdout, "%4s %v\n", number[e.N], e)
	}
	_, err = fmt.Fprintf(out.stdout, "repeat it with: %s\n", c.command(r.Seed))
	return err
}

// exhaust runs the exhaustive mode.
func (c *exploreCommand) exhaust(ctx context.Context, out output, twins []sim.Twin) error {
	began := time.Now()
	e, err := sim.Exhaust(c.From, twins, func(e sim.Exhaustion) bool { return ctx.Err() != nil || len(e.Violations) > 0 && !c.KeepGoing })
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r := exploreReport{Seeds: e.Runs, Payments: e.Runs, Violations: append([]sim.Violation{}, e.Violations...), Counts: e.Counts,
		Seconds: time.Since(began).Seconds(), Store: "memory", Without: append([]string{}, c.Without...)}
	if c.Format == "json" {
		err = json.NewEncoder(out.stdout).Encode(r)
	} else {
		fmt.Fprintf(out.stdout, "main line of %d calls, %d with the processor's reply lost, side line with a question and a refund of %d and %d; a crash before, a crash after, a lost answer and a refusal at each: %d runs in %.1f s\n",
			e.Calls[0], e.Calls[1], e.Calls[2], e.Calls[3], e.Runs, r.Seconds)
		if len(e.Violations) == 0 {
			fmt.Fprintln(out.stdout, c.verdict(fmt.Sprintf("%d runs with one fault each: some need two or more, so try without --exhaustive, or another --from", e.Runs)))
		}
	}
	if err == nil && len(e.Violations) > 0 {
		err = fmt.Errorf("explore: %d runs show harm; the first: %v", len(e.Violations), e.Violations[0])
	}
	return err
}
