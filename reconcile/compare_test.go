package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/reconcile"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func entry(reference, ref string, amount int64, state effect.State) reconcile.Entry {
	return reconcile.Entry{Reference: reference, Ref: ref, Amount: amount, Currency: "USD", State: state, At: start}
}

func (c comparison) there() []reconcile.Entry {
	var out []reconcile.Entry
	for i, state := range c.theirs {
		out = append(out, entry("pay_1", fmt.Sprintf("ch_%d", i+1), 3000, state))
	}
	for _, change := range c.change {
		change(&out[len(out)-1])
	}
	return out
}

// comparison is one record of ours, known as ch_1 when it has succeeded, and what they
// hold of it; change alters the last of theirs.
type comparison struct {
	name   string
	here   effect.State
	theirs []effect.State
	change []func(*reconcile.Entry)
	want   []reconcile.Kind
}

type (
	states = []effect.State
	kinds  = []reconcile.Kind
)

func changed(f ...func(*reconcile.Entry)) []func(*reconcile.Entry) { return f }

func otherAmount(e *reconcile.Entry)   { e.Amount = 2900 }
func otherCurrency(e *reconcile.Entry) { e.Currency = "EUR" }
func otherRef(e *reconcile.Entry)      { e.Ref = "ch_9" }
func inTime(e *reconcile.Entry)        { e.At = start.Add(time.Minute) }
func late(e *reconcile.Entry)          { e.At = start.Add(time.Minute + time.Second) }

var comparisons = []comparison{
	{name: "both succeeded", here: effect.Succeeded, theirs: states{effect.Succeeded}},
	{name: "both failed", here: effect.Failed, theirs: states{effect.Failed}},
	{name: "failed here, nothing there", here: effect.Failed},
	{name: "void here, nothing there", here: effect.Void},
	{name: "failed here, undecided there", here: effect.Failed, theirs: states{effect.Unknown}},
	{name: "a decline beside the success", here: effect.Succeeded, theirs: states{effect.Succeeded, effect.Failed}},

	{name: "not there", here: effect.Succeeded, want: kinds{reconcile.MissingThere}},
	{name: "two declines for one success", here: effect.Succeeded, theirs: states{effect.Failed, effect.Failed}, want: kinds{reconcile.MissingThere}},
	{name: "failed there", here: effect.Succeeded, theirs: states{effect.Failed}, want: kinds{reconcile.OtherOutcome}},
	{name: "undecided there", here: effect.Succeeded, theirs: states{effect.Unknown}, want: kinds{reconcile.OtherOutcome}},
	{name: "failed here", here: effect.Failed, theirs: states{effect.Succeeded}, want: kinds{reconcile.OtherOutcome}},
	{name: "void here", here: effect.Void, theirs: states{effect.Succeeded}, want: kinds{reconcile.OtherOutcome}},
	{name: "void here, another amount", here: effect.Void, theirs: states{effect.Succeeded}, change: changed(otherAmount), want: kinds{reconcile.OtherOutcome}},
	{name: "failed here, another amount", here: effect.Failed, theirs: states{effect.Succeeded}, change: changed(otherAmount), want: kinds{reconcile.OtherOutcome}},

	{name: "another amount", here: effect.Succeeded, theirs: states{effect.Succeeded}, change: changed(otherAmount), want: kinds{reconcile.OtherAmount}},
	{name: "another currency", here: effect.Succeeded, theirs: states{effect.Succeeded}, change: changed(otherCurrency), want: kinds{reconcile.OtherAmount}},
	{name: "another name", here: effect.Succeeded, theirs: states{effect.Succeeded}, change: changed(otherRef), want: kinds{reconcile.OtherRef}},

	{name: "twice", here: effect.Succeeded, theirs: states{effect.Succeeded, effect.Succeeded}, want: kinds{reconcile.Several}},
	{name: "twice, ours among them in any order", here: effect.Succeeded, theirs: states{effect.Failed, effect.Succeeded, effect.Succeeded},
		change: changed(func(e *reconcile.Entry) { e.Ref = "ch_1" }), want: kinds{reconcile.Several}},
	{name: "twice, unknown here", here: effect.Unknown, theirs: states{effect.Succeeded, effect.Succeeded}, want: kinds{reconcile.Several}},
	{name: "twice, void here", here: effect.Void, theirs: states{effect.Succeeded, effect.Succeeded}, want: kinds{reconcile.OtherOutcome, reconcile.Several}},

	{name: "a little later", here: effect.Succeeded, theirs: states{effect.Succeeded}, change: changed(inTime)},
	{name: "late", here: effect.Succeeded, theirs: states{effect.Succeeded}, change: changed(late), want: kinds{reconcile.SettledLate}},
	{name: "late, unknown here", here: effect.Unknown, theirs: states{effect.Succeeded}, change: changed(late), want: kinds{reconcile.Closable, reconcile.SettledLate}},
	{name: "a late decline", here: effect.Failed, theirs: states{effect.Failed}, change: changed(late)},

	{name: "unknown here, succeeded there", here: effect.Unknown, theirs: states{effect.Succeeded}, want: kinds{reconcile.Closable}},
	{name: "pending here, succeeded there", here: effect.Pending, theirs: states{effect.Succeeded}, want: kinds{reconcile.Closable}},
	{name: "unknown here, declined there", here: effect.Unknown, theirs: states{effect.Failed}, want: kinds{reconcile.Closable}},
	{name: "unknown here, success and decline there", here: effect.Unknown, theirs: states{effect.Failed, effect.Succeeded}, want: kinds{reconcile.Closable}},
	{name: "unknown here, nothing there", here: effect.Unknown, want: kinds{reconcile.Unproved}},
	{name: "unknown here, undecided there", here: effect.Unknown, theirs: states{effect.Unknown}, want: kinds{reconcile.Unproved}},
	{name: "unknown here, undecided there with another amount", here: effect.Unknown, theirs: states{effect.Unknown}, change: changed(otherAmount), want: kinds{reconcile.Unproved}},
	{name: "unknown here, two declines there", here: effect.Unknown, theirs: states{effect.Failed, effect.Failed}, want: kinds{reconcile.Unproved}},
	{name: "unknown here, a decline beside what is undecided", here: effect.Unknown, theirs: states{effect.Failed, effect.Unknown}, want: kinds{reconcile.Unproved}},
	{name: "unknown here, another amount there", here: effect.Unknown, theirs: states{effect.Succeeded}, change: changed(otherAmount), want: kinds{reconcile.OtherAmount}},
	{name: "unknown here, a decline of another amount there", here: effect.Unknown, theirs: states{effect.Failed}, change: changed(otherAmount), want: kinds{reconcile.OtherAmount}},
}

// case 22: what closes an unknown is definite, alone and fits.
func TestEveryDifferenceIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range comparisons {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ref := ""
			if c.here == effect.Succeeded {
				ref = "ch_1"
			}
			got := reconcile.Compare([]reconcile.Entry{entry("pay_1", ref, 3000, c.here)}, c.there(), time.Minute)
			wantKinds(t, got, c.want)
			for _, d := range got {
				if d.Here == nil || d.Here.Reference != "pay_1" || d.What == "" || d.Settled {
					t.Errorf("got %+v, want our record, words, and nothing settled", d)
				}
				if c.here.Final() && (d.Kind == reconcile.Closable || d.Kind == reconcile.Unproved) {
					t.Errorf("%s is final and %s", c.here, d.Kind)
				}
			}
		})
	}
}

func wantKinds(t *testing.T, got []reconcile.Difference, want []reconcile.Kind) {
	t.Helper()
	var is []reconcile.Kind
	for _, d := range got {
		is = append(is, d.Kind)
	}
	if !slices.Equal(is, want) {
		t.Errorf("got %v, want %v: %+v", is, want, got)
	}
}

func TestWhatIsNotHereIsReportedWhenMoneyMoved(t *testing.T) {
	t.Parallel()
	got := reconcile.Compare(nil, []reconcile.Entry{
		entry("pay_2", "ch_2", 500, effect.Succeeded), entry("", "ch_1", 700, effect.Succeeded),
		entry("pay_3", "ch_3", 900, effect.Failed), entry("", "ch_4", 900, effect.Unknown),
	}, time.Minute)
	wantKinds(t, got, kinds{reconcile.MissingHere, reconcile.MissingHere})
	if len(got) == 2 && (got[0].There.Ref != "ch_1" || got[1].There.Ref != "ch_2" || got[0].Here != nil || !strings.Contains(got[0].What, "700 USD")) {
		t.Errorf("got %+v, want what was made by hand first", got)
	}
}

// The order of either list changes nothing in the report.
func TestTheReportDoesNotDependOnTheOrderOfTheLists(t *testing.T) {
	t.Parallel()
	var here, there []reconcile.Entry
	for i, c := range comparisons {
		name := fmt.Sprintf("pay_%02d", i)
		h := entry(name, "", 3000, c.here)
		if c.here == effect.Succeeded {
			h.Ref = "ch_1"
		}
		here = append(here, h)
		for _, t := range c.there() {
			t.Reference = name
			there = append(there, t)
		}
	}
	words := func(list []reconcile.Difference) string {
		var b strings.Builder
		for _, d := range list {
			fmt.Fprintln(&b, d.Kind, d.Here.Reference)
		}
		return b.String()
	}
	want := words(reconcile.Compare(here, there, time.Minute))
	slices.Reverse(here)
	slices.Reverse(there)
	if got := words(reconcile.Compare(here, there, time.Minute)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
