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
	return p
}

// Exhaustion is what the exhaustive mode did.
type Exhaustion struct {
	// Calls is how many seam calls the main line has, without and with the gray
	// failure.
	Calls [2]int
	// Runs is how many runs were made: each call times each fault.
	Runs       int
	Violations []Violation
	// Repeat are the plans of the violations.
	Repeat []Plan
	Counts Counts
}

// exhaustiveFaults are tried at every call of every process.
var exhaustiveFaults = []string{"crash-before", "crash-after", "lose", "refuse"}

// Exhaust injects one fault at every single seam call of the main line, each kind in
// turn: the process that makes the call dies before or after it, the answer is
// lost, or the call is refused.
func Exhaust(seed uint64, twins []Twin, stop func(Exhaustion) bool) (Exhaustion, error) {
	var e Exhaustion
	for i, gray := range []bool{false, true} {
		plan := MainLine(seed, gray)
		plan.Twins = twins
		base, err := Run(plan)
		if err != nil {
			return e, err
		}
		if base.Violation != nil {
			return e, fmt.Errorf("sim: the main line itself is harmed: %v", base.Violation)
		}
		e.Calls[i] = base.Calls
		for n := 1; n <= base.Calls; n++ {
			for _, do := range exhaustiveFaults {
				plan := MainLine(seed, gray)
				plan.Twins, plan.Inject = twins, []Injection{{Call: n, Do: do}}
				r, err := Run(plan)
				if err != nil {
					return e, err
				}
				e.Runs++
				e.Counts.Add(r.Counts)
				if r.Violation != nil {
					v := *r.Violation
					v.What = fmt.Sprintf("%s (gray failure %t, %s at call %d)", v.What, gray, do, n)
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
