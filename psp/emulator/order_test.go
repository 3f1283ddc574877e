package emulator_test

import (
	"testing"
)

// Two requests at once may reach the journal in another order than they were numbered:
// listings, before a restart and after it, show the order of the numbers.
func TestListingsDoNotShowTheOrderOfTheJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var second object
	w.journal.onAppend = func() { second = read(t, w.do(charge("k2"))) } // numbered later, kept first
	first := read(t, w.do(charge("k1")))
	for range 2 {
		for _, path := range []string{"/v1/payment_intents", "/v1/payment_intents/search"} {
			request := get(path)
			if path != "/v1/payment_intents" {
				request = get(path, "query", "metadata['payment_id']:'pay_7'")
			}
			got := read(t, w.do(request)).Data
			if len(got) != 2 || got[0].ID != second.ID || got[1].ID != first.ID {
				t.Errorf("%s: got %v, want %s, %s", path, got, second.ID, first.ID)
			}
		}
		w.restart()
	}
}
