package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// benchCommand measures one path of the system beside the raw commits of the same
// store in the same run, so that the ratio says something on any machine.
type benchCommand struct {
	What     string        `arg:"" enum:"payments,replays,claims,relay,inbox,sim" help:"payments, replays, claims, relay, inbox or sim (explored payments on one core)."`
	Store    string        `help:"An empty postgres://… or sqlite:PATH, or memory. A temporary SQLite file by default." placeholder:"URL"`
	Clients  int           `help:"How many callers at a time." default:"64"`
	Duration time.Duration `help:"How long each measurement takes." default:"10s"`
	Format   string        `help:"text or json." enum:"text,json" default:"text"`
}

// benchResult is one measurement.
type benchResult struct {
	What      string  `json:"what"`
	Store     string  `json:"store"`
	Clients   int     `json:"clients"`
	Done      int     `json:"done"`
	PerSecond float64 `json:"per_second"`
	P50ms     float64 `json:"p50_ms"`
	P99ms     float64 `json:"p99_ms"`
	// RawPerSecond are one-row INSERTs of the same database and clients, each committed
	// alone; 0 in memory.
	RawPerSecond float64 `json:"raw_commits_per_second"`
	// Ratio is PerSecond / RawPerSecond.
	Ratio float64 `json:"ratio"`
}

// Run measures and prints one line.
func (c *benchCommand) Run(ctx context.Context, out output) error {
	if c.Clients < 1 || c.Duration <= 0 {
		return misuse{errors.New("--clients and --duration must be positive")}
	}
	if c.What == "sim" {
		return c.sim(ctx, out)
	}
	dir, err := os.MkdirTemp("", "retryproof-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := openStore(ctx, c.Store, filepath.Join(dir, "bench.db"), true)
	if err != nil {
		return err
	}
	defer func() { _ = store.close() }()
	rig, err := newBenchRig(ctx, store)
	if err != nil {
		return err
	}
	op, err := rig.operation(ctx, c.What, c.Clients, c.Duration)
	if err != nil {
		return err
	}
	progress := func(what string) {
		fmt.Fprintf(out.stderr, "measuring %s on %s with %d clients for %v …\n", what, store.kind, c.Clients, c.Duration)
	}
	raw, err := c.rawCommits(ctx, store.kind, filepath.Join(dir, "bench.db"), progress)
	if err != nil {
		return err
	}
	progress(c.What)
	run, err := measure(ctx, c.Clients, c.Duration, op)
	if err != nil {
		return err
	}
	return c.print(out, store.kind, raw, run)
}

// rawCommits measures one-row commits of the same database; nothing in memory.
func (c *benchCommand) rawCommits(ctx context.Context, kind, fallback string, progress func(string)) (m measurement, err error) {
	table, err := openRaw(ctx, kind, cmp.Or(c.Store, fallback), c.Clients)
	if err != nil || table == nil {
		return m, err
	}
	defer func() { err = errors.Join(err, table.close(context.WithoutCancel(ctx))) }()
	progress("one-row commits")
	return measure(ctx, c.Clients, c.Duration, table.insert)
}

func (c *benchCommand) print(out output, kind string, raw, run measurement) error {
	r := benchResult{What: c.What, Store: kind, Clients: c.Clients, Done: run.units, PerSecond: run.rate(), P50ms: run.percentile(50),
		P99ms: run.percentile(99), RawPerSecond: raw.rate()}
	if r.RawPerSecond > 0 {
		r.Ratio = r.PerSecond / r.RawPerSecond
	}
	if c.Format == "json" {
		return json.NewEncoder(out.stdout).Encode(r)
	}
	beside := "nothing is committed"
	if r.RawPerSecond > 0 {
		beside = fmt.Sprintf("one-row commits: %.0f/s; ratio %.2f", r.RawPerSecond, r.Ratio)
	}
	_, err := fmt.Fprintf(out.stdout, "%s on %s, %d clients: %.0f/s (p50 %.2f ms, p99 %.2f ms); %s\n",
		r.What, r.Store, r.Clients, r.PerSecond, r.P50ms, r.P99ms, beside)
	return err
}

// measurement is how long each operation took.
type measurement struct {
	took  []time.Duration // sorted
	units int
	total time.Duration
}

func (m measurement) rate() float64 {
	if m.total == 0 {
		return 0
	}
	return float64(m.units) / m.total.Seconds()
}

// operation does some work and returns how many units it did; errRanDry ends a
// measurement early, without failing it.
type operation func(ctx context.Context, client, n int) (int, error)

var errRanDry = errors.New("bench: nothing is left to do")

// one makes an operation of a function that does one unit.
func one(f func(ctx context.Context, client, n int) error) operation {
	return func(ctx context.Context, client, n int) (int, error) { return 1, f(ctx, client, n) }
}

func (m measurement) percentile(p int) float64 {
	if len(m.took) == 0 {
		return 0
	}
	return float64(m.took[min(len(m.took)*p/100, len(m.took)-1)]) / float64(time.Millisecond)
}

// measure calls op from many clients for a while. Every call gets a number of its
// own. It ends at the first error.
func measure(ctx context.Context, clients int, d time.Duration, op operation) (measurement, error) {
	var (
		mu    sync.Mutex
		all   measurement
		fails []error
		wait  sync.WaitGroup
	)
	began := time.Now()
	for client := range clients {
		wait.Go(func() {
			var took []time.Duration
			var failed error
			units := 0
			for n := 0; time.Since(began) < d && ctx.Err() == nil && failed == nil; n++ {
				start := time.Now()
				var did int
				did, failed = op(ctx, client, n)
				units += did
				took = append(took, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all.took = append(all.took, took...)
			all.units += units
			if failed != nil && !errors.Is(failed, errRanDry) {
				fails = append(fails, failed)
			}
		})
	}
	wait.Wait()
	all.total = time.Since(began)
	slices.Sort(all.took)
	if len(fails) > 0 {
		return all, fails[0]
	}
	return all, ctx.Err()
}
