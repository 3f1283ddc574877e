package sim

import (
	"math/rand/v2"
	"time"
)

// Result is one run of one world.
type Result struct {
	Seed     uint64
	Hash     string
	Steps    uint64
	Calls    int
	Payments int
	Counts   Counts
	// Hits are the numbers of the decisions that went wrong.
	Hits []uint64
	// Violation is nil when no harm was seen.
	Violation *Violation
	// Trace is kept when Options.KeepTrace was set.
	Trace *Trace
}

// Plan is what a run does, all of it drawn from the seed.
type Plan struct {
	Options
	// Buyers and IntentsEach say who pays how often.
	Buyers, IntentsEach int
	// APIs, Relays and Workers are how many nodes there are.
	APIs, Relays, Workers int
	// FaultsFor is how long faults are on; HealFor is how long the system then has
	// to settle everything.
	FaultsFor, HealFor time.Duration
	// SameKeys lets all buyers use the same keys: scopes must keep them apart.
	SameKeys bool
	// GrayFailure loses the processor's first reply to a charge and to a refund.
	GrayFailure bool
	// Habits are what buyers do.
	Habits Habits
	// Operator gives verdicts about what no machine can settle.
	Operator bool
}

// PlanOf draws a plan from a seed: which faults, how often, how many nodes.
func PlanOf(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x706c616e))
	p := Plan{
		Buyers: 1 + r.IntN(4), IntentsEach: 1 + r.IntN(4), APIs: 1 + r.IntN(3), Relays: 1 + r.IntN(2), Workers: 1 + r.IntN(3),
		FaultsFor: time.Duration(20+r.IntN(100)) * time.Second, HealFor: 40 * time.Minute, SameKeys: r.IntN(3) == 0,
	}
	p.Options = Options{Seed: seed, Chaos: swarm(r), Jitter: time.Duration(1+r.IntN(40)) * time.Millisecond,
		Latency: map[string]time.Duration{"net": 20 * time.Millisecond, "psp": time.Duration(r.IntN(400)) * time.Millisecond}}
	p.Config.AnswerTTL, p.Config.Relays = time.Hour, 1
	if r.IntN(3) == 0 {
		p.Config.ResolveUnknownOnly = r.IntN(2) == 0
	}
	p.tempt(r)
	return p
}

// Run runs one plan: faults on, safety audited at every event; then healed, and
// within HealFor nothing may be left unsettled.
func Run(p Plan) (Result, error) {
	for _, t := range p.Twins {
		if t.World != nil {
			t.World(&p)
		}
	}
	w, err := NewWorld(p.Options)
	if err != nil {
		return Result{}, err
	}
	defer w.Close()
	w.faulty = true
	if p.GrayFailure {
		w.losing["psp charge"], w.losing["psp refund"] = 1, 1
	}
	if err := w.bootAll(p); err != nil {
		return Result{}, err
	}
	left := w.sendBuyers(p)
	if p.Operator {
		w.startOperator()
	}
	slice := 250 * time.Millisecond
	for w.now < p.FaultsFor && *left > 0 && w.audit.violation == nil {
		w.Run(w.now + slice)
	}
	w.heal()
	deadline := w.now + p.HealFor
	for w.audit.violation == nil && w.now < deadline {
		w.Run(w.now + slice)
		if *left == 0 && !w.audit.anyOpen() && w.settled() {
			break
		}
		slice = min(2*slice, 32*time.Second)
		if *left > 0 { // a buyer who comes back hours later
			deadline = w.now + p.HealFor
		}
	}
	if w.audit.violation == nil {
		w.audit.end()
	}
	r := Result{Seed: p.Seed, Hash: w.trace.Hash(), Steps: w.steps, Calls: w.calls, Payments: len(w.audit.intents),
		Counts: w.counts, Violation: w.audit.violation}
	// A result outlives its world by far and must not hold on to it: a hundred
	// thousand worlds are gigabytes.
	if r.Violation != nil {
		r.Hits = w.hits
	}
	if p.KeepTrace {
		trace := w.trace
		r.Trace = &trace
	}
	return r, nil
}

func (w *World) bootAll(p Plan) error {
	boot := func(role, prefix string, n int) error {
		for i := range n {
			if _, err := w.Boot(role, nodeName(prefix, i), true); err != nil {
				return err
			}
		}
		return nil
	}
	if err := boot("api", "api", p.APIs); err != nil {
		return err
	}
	if err := boot("resolver", "resolver", 1); err != nil {
		return err
	}
	if err := boot("notifier", "notifier", 1); err != nil {
		return err
	}
	if err := boot("relay", "relay", p.Relays); err != nil {
		return err
	}
	return boot("worker", "w", p.Workers)
}

func nodeName(prefix string, i int) string {
	return prefix + "-" + string(rune('1'+i))
}

// sendBuyers lets the buyers begin; the counter is how many are not done.
func (w *World) sendBuyers(p Plan) *int {
	left := p.Buyers
	for i := range p.Buyers {
		b := newBuyer(w, "u"+string(rune('1'+i)), p.IntentsEach, p.Habits)
		for k, intent := range b.Intents {
			if p.SameKeys {
				intent.Key = "same-key-" + string(rune('a'+k))
			}
			w.audit.watch(intent)
		}
		for _, t := range w.options.Twins {
			if t.Phone != nil {
				t.Phone(b)
			}
		}
		phone := NewProcess(w.Scheduler, "phone-"+b.Name, 0, 0)
		w.processes = append(w.processes, phone)
		w.Go(phone, w.upTo(3*time.Second), func() { b.run(w, phone, func() { left-- }) })
	}
	return &left
}

// heal ends the faults: what crashed comes back at once, what was lost stays lost.
func (w *World) heal() {
	w.faulty, w.healed, w.healedAt = false, true, w.now
	w.balancer.offset, w.balancer.drift = 0, 0
	w.core.ClearFaults()
}
