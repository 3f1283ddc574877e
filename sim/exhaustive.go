package sim

import (
	"fmt"
	"time"
)

// MainLine is a plan without chaos: one buyer, one payment, two API nodes, a
// resolver, a relay and two workers. With grayFailure the processor's first reply
// is lost, so that the resolver has work.
func MainLine(seed uint64, grayFailure bool) Plan {
	p := Plan{Buyers: 1, IntentsEach: 1, APIs: 2, Relays: 1, Workers: 2, FaultsFor: time.Minute, HealFor: 40 * time.Minute, GrayFailure: grayFailure}
	p.Options = Options{Seed: seed, Jitter: 2 * time.Millisecond, NoWebhooks: grayFailure,
		Latency: map[string]time.Duration{"net": 20 * time.Millisecond, "psp": 260 * time.Millisecond}}
	p.Config.AnswerTTL = time.Hour
	p.Restless = 2 * time.Second // a fault at a look that finds nothing counts, too
	return p
}

// SideLine is a plan without chaos in which the buyer asks about the key before its
// first send, pays with the key that the void one makes room for, and wants a part of
// the money back. With grayFailure the processor's first reply to either is lost.
func SideLine(seed uint64, grayFailure bool) Plan {
	p := MainLine(seed, grayFailure)
	p.Habits = Habits{AskFirst: 1, Refund: 1, Refunding: RefundPart}
	return p
}

// Exhaustion is what the exhaustive mode did.
type Exhaustion struct {
	// Calls is how many seam calls the main line has, without and with the gray
	// failure, and then the side line.
	Calls [4]int
	// Runs is how many runs were made: each call times each fault.
	Runs       int
	Violations []Violation
	// Repeat are the plans of the violations.
	Repeat []Plan
	Counts Counts
}

// exhaustiveFaults are tried at every call of every process.
var exhaustiveFaults = []string{"crash-before", "crash-after", "lose", "refuse"}

// Exhaust injects one fault at every single seam call of the main line and of the side
// line, each kind in turn: the process that makes the call dies before or after it, the answer is
// lost, or the call is refused.
func Exhaust(seed uint64, twins []Twin, stop func(Exhaustion) bool) (Exhaustion, error) {
	var e Exhaustion
	for i, line := range []struct {
		name string
		plan func() Plan
	}{
		{"the main line", func() Plan { return MainLine(seed, false) }},
		{"the main line with a gray failure", func() Plan { return MainLine(seed, true) }},
		{"the side line", func() Plan { return SideLine(seed, false) }},
		{"the side line with gray failures", func() Plan { return SideLine(seed, true) }},
	} {
		plan := line.plan()
		plan.Twins = twins
		base, err := Run(plan)
		if err != nil {
			return e, err
		}
		if base.Violation != nil {
			return e, fmt.Errorf("sim: %s itself is harmed: %v", line.name, base.Violation)
		}
		e.Calls[i] = base.Calls
		for n := 1; n <= base.Calls; n++ {
			for _, do := range exhaustiveFaults {
				plan := line.plan()
				plan.Twins, plan.Inject = twins, []Injection{{Call: n, Do: do}}
				r, err := Run(plan)
				if err != nil {
					return e, err
				}
				e.Runs++
				e.Counts.Add(r.Counts)
				if r.Violation != nil {
					v := *r.Violation
					v.What = fmt.Sprintf("%s (%s, %s at call %d)", v.What, line.name, do, n)
					e.Violations, e.Repeat = append(e.Violations, v), append(e.Repeat, plan)
				}
				if stop != nil && stop(e) {
					return e, nil
				}
			}
		}
	}
	return e, nil
}
