package record

import (
	"cmp"
	"slices"

	"github.com/retryproof/retryproof/payments"
)

// MergeSightings adds up what was seen of the same thing and sorts by (PaymentID,
// Hop, What), so that writers lock rows in one order.
func MergeSightings(seen []payments.Sighting) []payments.Sighting {
	sorted := slices.Clone(seen)
	slices.SortStableFunc(sorted, compareSightings)
	var out []payments.Sighting
	for _, s := range sorted {
		if n := len(out); n > 0 && compareSightings(out[n-1], s) == 0 {
			out[n-1].N += s.N
			if s.At.After(out[n-1].At) {
				out[n-1].At = s.At
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

func compareSightings(a, b payments.Sighting) int {
	return cmp.Or(cmp.Compare(a.PaymentID, b.PaymentID), cmp.Compare(a.Hop, b.Hop), cmp.Compare(a.What, b.What))
}
