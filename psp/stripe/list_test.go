package stripe_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
)

func TestWindowsThatMeetListEveryChargeOnceNewestFirst(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	c, start := w.adapter(), w.clock.Now()
	var want []string
	for i := range 9 {
		made, err := c.Charge(ctx, request("k"+strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, made.ID)
		w.clock.advance(time.Second / 2)
	}
	slices.Reverse(want)
	var got []string
	pages := 0
	for _, bounds := range [][2]time.Duration{{2500 * time.Millisecond, time.Minute}, {0, 2500 * time.Millisecond}} {
		for after := ""; ; {
			page, next, err := c.List(ctx, start.Add(bounds[0]), start.Add(bounds[1]), after, 2)
			if pages++; err != nil || pages > 5 {
				t.Fatalf("page %d: %v", pages, err)
			}
			for _, charge := range page {
				got = append(got, charge.ID)
			}
			if next == "" {
				break
			}
			after = next
		}
	}
	if !slices.Equal(got, want) || pages != 5 {
		t.Errorf("got %v in %d pages, want %v in 5", got, pages, want)
	}
}

func TestAListingThatCannotBeIsEmptyOrAnErrorAndNeverEverything(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.Background()
	c, now := w.adapter(), w.clock.Now()
	paid(t, c)
	for _, bounds := range [][2]time.Time{{now, now}, {now.Add(time.Hour), now}, {{}, {}}} {
		if got, next, err := c.List(ctx, bounds[0], bounds[1], "", 0); len(got) != 0 || next != "" || err != nil {
			t.Errorf("%v: got %v %q %v, want nothing", bounds, got, next, err)
		}
	}
	if got, _, err := c.List(ctx, time.Time{}, now.Add(time.Hour), "", 1000); len(got) != 1 || err != nil {
		t.Errorf("from the beginning of time: got %v %v, want the charge", got, err)
	}
	_, _, err := c.List(ctx, now, now.Add(time.Hour), "pi_none", 0)
	wantError(t, "no such cursor", err, retryproof.Unknown, retryproof.CodeNotFound)
	_, _, err = c.ListRefunds(ctx, now, now.Add(time.Hour), "", -1)
	wantError(t, "negative limit", err, retryproof.Unknown, retryproof.CodeInvalid)
	dead, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err = c.List(dead, now, now.Add(time.Hour), "", 0)
	wantError(t, "dead context", err, retryproof.Unknown, retryproof.CodeTooLate)
}
