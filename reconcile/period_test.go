package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/reconcile"
)

// A record that another day made is compared with a cut list: a decline in it may have
// a success beside it that was not listed. It closes nothing; a success does.
func TestADeclineClosesOnlyARecordOfThePeriod(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	made := func(at time.Duration) (*books, *books) {
		ours, theirs := &books{}, &books{}
		ours.add("pay_1", "", effect.Unknown, at)
		return ours, theirs
	}
	ours, theirs := made(-day)
	theirs.add("pay_1", "ch_1", effect.Succeeded, -day)
	theirs.add("pay_1", "ch_2", effect.Failed, time.Hour)
	r := run(t, ours, theirs, reconcile.Config{Settle: true})
	wantKinds(t, r.Differences, kinds{reconcile.Unproved})
	if len(ours.settled) != 0 || r.Settled != 0 || !r.Open() {
		t.Fatalf("got %v closed, want nothing: %+v", ours.settled, r)
	}
	if got := r.Differences[0].What; !strings.Contains(got, "outside the period") || !strings.Contains(got, "2026-02-28T12:00:00Z") {
		t.Errorf("got %q, want why it stays open and which period tells", got)
	}
	// Its own period has both.
	r, err := reconcile.Run(t.Context(), ours, theirs, start.Add(-day), start, reconcile.Config{Settle: true})
	if err != nil || strings.Join(ours.settled, ", ") != "pay_1 ch_1 SUCCEEDED" {
		t.Errorf("got %v closed, %+v, %v, want the success", ours.settled, r, err)
	}

	for _, c := range []struct {
		name  string
		at    time.Duration // our record
		state effect.State  // theirs, in the period
		want  int
	}{
		{"at the start", 0, effect.Failed, 1},
		{"just before the start", -time.Microsecond, effect.Failed, 0},
		{"just before the end", day - time.Microsecond, effect.Failed, 1},
		{"at the end", day, effect.Failed, 0},
		{"a success, long before the start", -7 * day, effect.Succeeded, 1},
		{"a success, at the end", day, effect.Succeeded, 1},
	} {
		ours, theirs := made(c.at)
		theirs.add("pay_1", "ch_1", c.state, min(max(c.at, 0), day-time.Second))
		if r := run(t, ours, theirs, reconcile.Config{Settle: true}); r.Settled != c.want || len(ours.settled) != c.want {
			t.Errorf("%s: got %d closed, want %d: %+v", c.name, r.Settled, c.want, r)
		}
	}
}

// That a success of ours is not among theirs says nothing when only some of theirs were
// listed; that it failed there, or succeeded once more, does.
func TestARecordOfAnotherPeriodIsNotMissingThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		theirs []reconcile.Entry
		want   kinds
	}{
		{"another one failed", []reconcile.Entry{entry("pay_1", "ch_2", 3000, effect.Failed)}, nil},
		{"two others failed", []reconcile.Entry{entry("pay_1", "ch_2", 3000, effect.Failed), entry("pay_1", "ch_3", 3000, effect.Failed)}, nil},
		{"another one is undecided", []reconcile.Entry{entry("pay_1", "ch_2", 3000, effect.Unknown)}, nil},
		{"this one failed", []reconcile.Entry{entry("pay_1", "ch_1", 3000, effect.Failed)}, kinds{reconcile.OtherOutcome}},
		{"another one succeeded", []reconcile.Entry{entry("pay_1", "ch_2", 3000, effect.Succeeded)}, kinds{reconcile.OtherRef, reconcile.SettledLate}},
	} {
		ours, theirs := &books{}, &books{entries: c.theirs}
		ours.add("pay_1", "ch_1", effect.Succeeded, -48*time.Hour)
		t.Log(c.name)
		wantKinds(t, run(t, ours, theirs, reconcile.Config{}).Differences, c.want)
	}
}

// A charge that both days hold is closed by whichever is compared first, and the other
// one is reported then.
func TestASuccessOnEachOfTwoDaysIsReported(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, order := range [][]time.Duration{{-day, 0}, {0, -day}} {
		ours, theirs := &books{}, &books{}
		ours.add("pay_1", "", effect.Unknown, -day)
		theirs.add("pay_1", "ch_1", effect.Succeeded, -day)
		theirs.add("pay_1", "ch_2", effect.Succeeded, time.Hour)
		var seen []reconcile.Kind
		for _, from := range order {
			r, err := reconcile.Run(t.Context(), ours, theirs, start.Add(from), start.Add(from+day), reconcile.Config{Settle: true, Late: 48 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range r.Differences {
				if seen = append(seen, d.Kind); d.Settled {
					ours.entries[0].State, ours.entries[0].Ref = d.There.State, d.There.Ref
				}
			}
		}
		if !slices.Equal(seen, kinds{reconcile.Closable, reconcile.OtherRef}) {
			t.Errorf("got %v, want the second one reported", seen)
		}
	}
}
