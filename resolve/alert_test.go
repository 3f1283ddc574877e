package resolve_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/resolve"
)

// evidence is what is kept beside the first effect.
func (b *bench) evidence() []effect.Evidence {
	b.t.Helper()
	kept, err := b.memory.Due().Evidence(context.Background(), retryproof.Of("effect", request(0).Scope))
	if err != nil {
		b.t.Fatal(err)
	}
	return kept
}

func (b *bench) wantEvidence(want ...string) {
	b.t.Helper()
	var got []string
	for _, e := range b.evidence() {
		got = append(got, string(e.Kind)+" "+e.Name)
		if strings.Contains(e.Name+e.Seen+e.By, string(request(0).Scope.Key)) {
			b.t.Errorf("evidence holds the client's key: %+v", e)
		}
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("evidence: got %q, want %q", got, want)
	}
}

// runFor asks as often as the resolver wants.
func (b *bench) runFor(r *resolve.Resolver, d time.Duration) {
	b.t.Helper()
	for until := b.clock.Now().Add(d); b.clock.Now().Before(until); b.clock.Advance(time.Minute) {
		b.run(r, 0)
	}
}

func conflicting(name string) resolve.Ask {
	return func(context.Context, effect.Guard) (effect.Finish, error) {
		return effect.Finish{}, errors.Join(&resolve.Conflict{Name: name, Seen: name + " is 2900, we say 3000"}, errCut)
	}
}

// case 25: a contradiction moves nothing, is kept once and told once, over many
// questions and restarts; another one is another.
func TestAConflictIsKeptOnceAndToldOnce(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	for range 3 {
		b.runFor(b.resolver(conflicting("ch_1"), resolve.Config{AlertAfter: 3}), 6*time.Hour)
	}
	b.wantState(effect.Unknown)
	b.wantEvents(0)
	b.wantEvidence("conflict conflict ch_1")
	if !slices.Equal(b.alerts, []int{1}) {
		t.Errorf("alerts at tries %v, want one at the first", b.alerts)
	}
	b.runFor(b.resolver(conflicting("ch_2"), resolve.Config{}), 6*time.Hour)
	b.wantEvidence("conflict conflict ch_1", "conflict conflict ch_2")
	if len(b.alerts) != 2 {
		t.Errorf("alerts at tries %v, want one more", b.alerts)
	}
}

// case 22: the budget is told of exactly once, after a restart too, and the evidence
// says what was seen last.
func TestTheBudgetIsToldOfOnce(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	for range 4 { // each a new process
		b.runFor(b.resolver(noAnswer, resolve.Config{AlertAfter: 5}), 12*time.Hour)
	}
	if !slices.Equal(b.alerts, []int{5}) {
		t.Errorf("alerts at tries %v, want one at 5", b.alerts)
	}
	b.wantEvidence("alert alert")
	if e := b.evidence()[0]; !strings.Contains(e.Seen, "5 questions, no evidence; last: "+errCut.Error()) || !strings.HasPrefix(e.By, "resolver-") || e.At.Before(start) {
		t.Errorf("got %+v, want who, when and what", e)
	}
	b.wantState(effect.Unknown)
	b.clock.Advance(time.Hour)
	b.run(b.resolver(charged, resolve.Config{}), 1)
	b.wantState(effect.Succeeded)
	b.wantEvidence("alert alert", "verdict verdict")
}

// A crash between the alert and its record tells the person again; no crash loses it.
func TestAnAlertIsGivenBeforeItIsRecorded(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	b.settle = errCut // what records it fails
	r := b.resolver(conflicting("ch_1"), resolve.Config{})
	for range 2 {
		if _, err := r.RunOnce(context.Background()); !errors.Is(err, errCut) {
			t.Errorf("got %v, want the failure", err)
		}
		b.clock.Advance(20 * time.Second) // the lease ends
	}
	b.wantEvidence()
	b.settle = nil
	b.runFor(r, time.Hour)
	b.wantEvidence("conflict conflict ch_1")
	if !slices.Equal(b.alerts, []int{1, 2, 3}) {
		t.Errorf("alerts at tries %v, want one at each that was not recorded", b.alerts)
	}
}

// blind cannot read evidence.
type blind struct{ resolve.Store }

func (blind) Evidence(context.Context, retryproof.ID) ([]effect.Evidence, error) { return nil, errCut }

func TestWhenItCannotBeReadWhoWasToldTheyAreToldAgain(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	b.due = blind{b.due}
	r := b.resolver(conflicting("ch_1"), resolve.Config{})
	for range 2 {
		b.run(r, 0)
		b.clock.Advance(time.Minute)
	}
	b.wantEvidence("conflict conflict ch_1")
	if len(b.alerts) != 2 {
		t.Errorf("alerts at tries %v, want two", b.alerts)
	}
}

func TestAVerdictSaysWhoWhenAndFromWhat(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	b.clock.Advance(11 * time.Second)
	b.run(b.resolver(func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
		f, err := charged(ctx, g)
		f.Seen = "a repeat gave ch_1\x00" + strings.Repeat("é", effect.MaxEvidenceSeen)
		return f, err
	}, resolve.Config{}), 1)
	b.wantEvidence("verdict verdict")
	e := b.evidence()[0]
	if !strings.HasPrefix(e.By, "resolver-") || !e.At.Equal(start.Add(11*time.Second)) || !strings.HasPrefix(e.Seen, "a repeat gave ch_1é") || !utf8.ValidString(e.Seen) {
		t.Errorf("got %+v, want who, when and what, clipped", e)
	}
}

// A contradiction that a webhook has kept is not told again by the resolver, and what
// was told does not hide another.
func TestToldLooksAtTheName(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	g, _ := b.guard()
	note := resolve.ConflictNote("ch_1", "webhook-evt_1", "2900", start)
	if resolve.Told(context.Background(), b.due, g.ID, note.Name) {
		t.Error("told before anything was kept")
	}
	if _, err := b.engine.Settle(context.Background(), effect.Settle{ID: g.ID, To: effect.Succeeded, By: "w", Now: start, Note: note}); err != nil {
		t.Fatal(err)
	}
	if !resolve.Told(context.Background(), b.due, g.ID, note.Name) || resolve.Told(context.Background(), b.due, g.ID, "conflict ch_2") {
		t.Error("got another answer than what is kept")
	}
	b.run(b.resolver(conflicting("ch_1"), resolve.Config{}), 0)
	if len(b.alerts) != 0 {
		t.Errorf("alerts at tries %v, want none", b.alerts)
	}
}

// Whatever the other side sends, it can be kept.
func FuzzWhatTheOtherSideSendsCanBeKept(f *testing.F) {
	for _, s := range []string{"", "ch_1", "a\x00b", "\xff\xfe", strings.Repeat("é", 2000), "\U0010ffff", "a\nb"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, name, by, seen string) {
		note := resolve.ConflictNote(name, by, seen, start)
		if err := note.Check(); err != nil {
			t.Errorf("%q, %q, %q: %v", name, by, seen, err)
		}
		if !strings.HasPrefix(note.Name, "conflict ") || len(seen) < 100 && utf8.ValidString(seen) && !strings.Contains(seen, "\x00") && note.Seen != seen {
			t.Errorf("got %+v", note)
		}
	})
}
