package sim

import (
	"slices"
	"strings"
	"testing"
)

func TestWithoutARuleItsHarmIsFound(t *testing.T) {
	t.Parallel()
	for _, twin := range Twins() {
		t.Run(twin.Rule, func(t *testing.T) {
			t.Parallel()
			seed, v := firstHarm(t, twin, 1000)
			if v == nil {
				t.Fatalf("no harm in 1,000 seeds, want one of %v", twin.Harms)
			}
			if !slices.Contains(twin.Harms, v.Rule) {
				t.Errorf("got %v, want one of %v", v, twin.Harms)
			}
			again := runWith(t, seed, twin)
			if again.Violation == nil || *again.Violation != *v {
				t.Errorf("the same seed again: got %v, want %v", again.Violation, v)
			}
			t.Logf("| %s | %s | %s | %d |", twin.Rule, twin.Instead, v.Rule, seed)
		})
	}
}

// firstHarm runs seeds from 1 until there is a harm.
func firstHarm(t *testing.T, twin Twin, most uint64) (uint64, *Violation) {
	for seed := uint64(1); seed <= most; seed++ {
		if r := runWith(t, seed, twin); r.Violation != nil {
			return seed, r.Violation
		}
	}
	return 0, nil
}

func runWith(t *testing.T, seed uint64, twin Twin) Result {
	t.Helper()
	p := PlanOf(seed)
	p.Twins = []Twin{twin}
	r, err := Run(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The control: what a twin needs besides being naive, its world and the plain store
// that it takes a rule from, harms nobody while the rule holds.
func TestTheWorldOfATwinDoesNoHarmWhileTheRuleHolds(t *testing.T) {
	t.Parallel()
	controls := []Twin{{Instead: "plain store", Stores: plainStores}}
	for _, twin := range Twins() {
		if twin.World == nil {
			continue
		}
		control := Twin{Instead: twin.Rule, World: twin.World}
		if twin.Stores != nil {
			control.Stores = plainStores
		}
		controls = append(controls, control)
	}
	for _, control := range controls {
		t.Run(control.Instead, func(t *testing.T) {
			t.Parallel()
			if seed, v := firstHarm(t, control, 200); v != nil {
				t.Errorf("seed %d: %v", seed, v)
			}
		})
	}
}

// A margin that is too small only lets two owners work at a time: the fence still
// keeps the slower one from writing, and the processor's key from charging twice.
func TestTheLeaseMarginAloneIsNotWhatSafetyRestsOn(t *testing.T) {
	t.Parallel()
	twin, err := TwinOf("lease-margin")
	if err != nil {
		t.Fatal(err)
	}
	if seed, v := firstHarm(t, Twin{World: twin.World, Config: twin.Config}, 200); v != nil {
		t.Errorf("seed %d: %v", seed, v)
	}
}

func TestEveryRuleHasATwinOrAReasonWhyNot(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, twin := range Twins() {
		if seen[twin.Rule] || twin.Instead == "" || len(twin.Harms) == 0 {
			t.Errorf("twin %q is there twice or says too little", twin.Rule)
		}
		seen[twin.Rule] = true
		if got, err := TwinOf(twin.Rule); err != nil || got.Rule != twin.Rule {
			t.Errorf("TwinOf(%q): got %q, %v", twin.Rule, got.Rule, err)
		}
	}
	for _, n := range NotBuilt() {
		if _, err := TwinOf(n.Rule); seen[n.Rule] || err == nil || !strings.Contains(err.Error(), n.Because) {
			t.Errorf("TwinOf(%q): got %v, want why it is not built", n.Rule, err)
		}
	}
	_, err := TwinOf("no-such-rule")
	for _, rule := range Rules() {
		if err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("got %v, want it to list %s", err, rule)
		}
	}
}
