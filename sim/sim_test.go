package sim

import "testing"

func TestManySeedsShowNoHarm(t *testing.T) {
	t.Parallel()
	var counts Counts
	n := 0
	for seed := uint64(1); seed <= 3000; seed++ {
		r, err := Run(PlanOf(seed))
		if err != nil {
			t.Fatal(err)
		}
		counts.Add(r.Counts)
		n += r.Payments
		if r.Violation != nil {
			t.Errorf("%v", r.Violation)
			break
		}
	}
	t.Logf("%d payments, %+v", n, counts)
}
