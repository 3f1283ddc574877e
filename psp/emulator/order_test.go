package emulator_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/retryproof/retryproof/psp/emulator"
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

// A cursor may lie outside the range that is listed: what is behind it counts.
func TestACursorMayBeOutsideTheRange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []string
	for i := range 4 {
		ids = append(ids, read(t, w.do(charge("k"+strconv.Itoa(i)))).ID)
		w.clock.advance(time.Minute)
	}
	early := strconv.FormatInt(w.clock.Now().Add(-3*time.Minute).Unix(), 10) // the first two are not after it
	for _, c := range []struct {
		name, cursor string
		want         []string
	}{
		{"starting_after", ids[3], []string{ids[1], ids[0]}},
		{"starting_after", ids[1], []string{ids[0]}},
		{"starting_after", ids[0], nil},
		{"ending_before", ids[3], nil},
		{"ending_before", ids[0], []string{ids[1]}},
	} {
		got := read(t, w.do(get("/v1/payment_intents", c.name, c.cursor, "created[lte]", early))).Data
		same := len(got) == len(c.want)
		for i := range got {
			same = same && got[i].ID == c.want[i]
		}
		if !same {
			t.Errorf("%s %s: got %v, want %v", c.name, c.cursor, got, c.want)
		}
	}
	if got := read(t, w.do(get("/v1/payment_intents", "ending_before", "pi_none"))); got.Error.Param != "ending_before" {
		t.Errorf("an unknown cursor: got %+v, want its own parameter named", got.Error)
	}
}

func TestNoListOfFaultsIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"null", "{}", "7", "[] []"} {
		if got, err := emulator.ParseFaults([]byte(text)); err == nil {
			t.Errorf("%s: got %v, want a refusal", text, got)
		}
	}
}
