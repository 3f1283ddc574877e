package sim

import "testing"

func BenchmarkExplore(b *testing.B) {
	payments := 0
	for i := 0; i < b.N; i++ {
		r, err := Run(PlanOf(uint64(i + 1)))
		if err != nil || r.Violation != nil {
			b.Fatal(err, r.Violation)
		}
		payments += r.Payments
	}
	b.ReportMetric(float64(payments)/b.Elapsed().Seconds(), "payments/s")
}
