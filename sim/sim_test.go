package sim

import (
	"reflect"
	"testing"
)

func TestManySeedsShowNoHarm(t *testing.T) {
	t.Parallel()
	var counts Counts
	for seed := uint64(1); seed <= 1000; seed++ {
		r, err := Run(PlanOf(seed))
		if err != nil {
			t.Fatal(err)
		}
		if r.Violation != nil {
			t.Fatalf("%v", r.Violation)
		}
		counts.Add(r.Counts)
	}
	v := reflect.ValueOf(counts)
	for i := range v.NumField() {
		if v.Field(i).Int() == 0 {
			t.Errorf("%s is 0 over the batch: it proves less than it says", v.Type().Field(i).Name)
		}
	}
}

func TestOneSeedIsOneTrace(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 200; seed++ {
		first, err := Run(PlanOf(seed))
		if err != nil {
			t.Fatal(err)
		}
		second, err := Run(PlanOf(seed))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := second.Hash, first.Hash; got != want {
			t.Fatalf("seed %d: hash got %s, want %s", seed, got, want)
		}
	}
}

func TestAFaultAtEverySingleCallOfTheMainLineDoesNoHarm(t *testing.T) {
	t.Parallel()
	e, err := Exhaust(1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range e.Violations {
		t.Error(v)
	}
	if got := e.Runs; got < 4*(e.Calls[0]+e.Calls[1]+e.Calls[2]+e.Calls[3]) || e.Calls[0] < 10 || e.Calls[2] < e.Calls[0]+10 {
		t.Errorf("runs: got %d for calls %v", got, e.Calls)
	}
	if c := e.Counts; c.Voids == 0 || c.Refunds == 0 || c.RefundsResolved == 0 {
		t.Errorf("got %+v, want voids, refunds, and refunds that the resolver settled", c)
	}
	t.Logf("%d calls, %d runs, %+v", e.Calls, e.Runs, e.Counts)
}
