package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/retryproof/retryproof/sim"
)

// simResult is what bench sim prints.
type simResult struct {
	Store     string  `json:"store"`
	Seeds     int     `json:"seeds"`
	Payments  int     `json:"payments"`
	PerSecond float64 `json:"per_second"`
	// Calls and Steps are seam calls and task switches per payment.
	Calls float64 `json:"calls_per_payment"`
	Steps float64 `json:"steps_per_payment"`
	// SwitchesPerSecond is the scheduler alone: a task that only gives the baton
	// away. Ratio is the share of it that the payments' own switches are.
	SwitchesPerSecond float64 `json:"bare_switches_per_second"`
	Ratio             float64 `json:"ratio"`
	// HeapMiB is what is alive afterwards.
	HeapMiB float64 `json:"heap_mib"`
}

// sim explores on one core for a while.
func (c *benchCommand) sim(ctx context.Context, out output) error {
	store := c.Store
	if store == "" {
		store = "memory"
	}
	stores, err := openSimStores(ctx, store)
	if err != nil {
		return err
	}
	defer func() { _ = stores.close() }()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	r := simResult{Store: redacted(store), SwitchesPerSecond: sim.MeasureSwitches(500_000)}
	var calls int
	var steps uint64
	e := exploreCommand{}
	began := time.Now()
	for seed := uint64(1); time.Since(began) < c.Duration && ctx.Err() == nil; seed++ {
		one, err := e.one(seed, nil, stores)
		if err != nil {
			return err
		}
		if one.Violation != nil {
			return fmt.Errorf("bench: %v", one.Violation)
		}
		r.Seeds++
		r.Payments += one.Payments
		calls += one.Calls
		steps += one.Steps
	}
	took := time.Since(began).Seconds()
	payments := float64(max(r.Payments, 1))
	r.PerSecond, r.Calls, r.Steps = float64(r.Payments)/took, float64(calls)/payments, float64(steps)/payments
	r.Ratio = float64(steps) / took / r.SwitchesPerSecond
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.HeapMiB = float64(m.HeapAlloc) / (1 << 20)
	if c.Format == "json" {
		return json.NewEncoder(out.stdout).Encode(r)
	}
	_, err = fmt.Fprintf(out.stdout, "sim on %s, one core: %.0f payments/s in %d worlds (%.0f calls and %.0f switches each); bare switches: %.1f M/s; ratio %.2f; %.0f MiB alive afterwards\n",
		r.Store, r.PerSecond, r.Seeds, r.Calls, r.Steps, r.SwitchesPerSecond/1e6, r.Ratio, r.HeapMiB)
	return err
}
