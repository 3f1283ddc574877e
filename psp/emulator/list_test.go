package emulator_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
)

func TestWindowsThatMeetListEveryChargeOnceNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.clock.Now()
	var want []string
	for i := range 30 { // three in a second
		want = append(want, read(t, w.do(charge("k"+strconv.Itoa(i)))).ID)
		w.clock.advance(time.Second / 3)
	}
	slices.Reverse(want)
	w.restart()
	d := emulator.Direct{Core: w.core}
	var got []string
	pages := 0
	for _, bounds := range [][2]time.Duration{{5500 * time.Millisecond, time.Minute}, {1, 5500 * time.Millisecond}, {0, 1}} {
		for after := ""; ; {
			page, next, err := d.List(context.Background(), start.Add(bounds[0]), start.Add(bounds[1]), after, 4)
			if pages++; err != nil || len(page) > 4 || pages > 10 {
				t.Fatalf("page %d: got %d charges and %v", pages, len(page), err)
			}
			for _, c := range page {
				got = append(got, c.ID)
			}
			if next == "" {
				break
			}
			after = next
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d\n%v\nwant %d\n%v", len(got), got, len(want), want)
	}
}

func TestAListingThatCannotBeIsEmptyOrAnErrorAndNeverEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(charge("k"))
	d, now := emulator.Direct{Core: w.core}, w.clock.Now()
	for _, bounds := range [][2]time.Time{{now, now}, {now.Add(time.Hour), now}, {now.Add(time.Second), now.Add(time.Hour)}, {time.Time{}, time.Time{}}} {
		if got, next, err := d.List(context.Background(), bounds[0], bounds[1], "", 0); len(got) != 0 || next != "" || err != nil {
			t.Errorf("%v: got %v %q %v, want nothing", bounds, got, next, err)
		}
	}
	if got, _, err := d.List(context.Background(), time.Time{}, now.Add(time.Hour), "", 0); len(got) != 1 || err != nil {
		t.Errorf("from the beginning of time: got %v %v, want the charge", got, err)
	}
	_, _, err := d.List(context.Background(), now, now.Add(time.Hour), "pi_none", 0)
	if retryproof.CodeOf(err) != retryproof.CodeNotFound || retryproof.OutcomeOf(err) != retryproof.Unknown {
		t.Errorf("got %v, want Unknown not-found", err)
	}
	if _, _, err := d.List(context.Background(), now, now.Add(time.Hour), "", -1); retryproof.CodeOf(err) != retryproof.CodeInvalid {
		t.Errorf("got %v, want invalid", err)
	}
}

func TestRefundsByHandAreListedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.clock.Now()
	intent := read(t, w.do(charge("k"))).ID
	w.do(refundOf(intent, "r", "1000"))
	w.clock.advance(time.Second)
	byHand := refundOf(intent, "", "500")
	byHand.Form.Del("metadata[refund_id]")
	byHand.Form.Del("metadata[payment_id]")
	w.do(byHand)
	got, next, err := emulator.Direct{Core: w.core}.ListRefunds(context.Background(), start, start.Add(time.Minute), "", 0)
	if err != nil || next != "" || len(got) != 2 {
		t.Fatalf("got %v %q %v, want two refunds", got, next, err)
	}
	for i, want := range []psp.Refund{
		{ChargeID: intent, Amount: 500, Currency: "USD", State: psp.Succeeded, Created: start.Add(time.Second)},
		{Reference: "ref_r", Payment: "pay_7", ChargeID: intent, Amount: 1000, Currency: "USD", State: psp.Succeeded, Created: start},
	} {
		want.ID = got[i].ID
		if got[i] != want || want.ID == "" {
			t.Errorf("%d: got %+v, want %+v", i, got[i], want)
		}
	}
}
