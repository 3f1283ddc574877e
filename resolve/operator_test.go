package resolve_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/resolve"
)

// verdict is one about the first effect, by alice.
func (b *bench) verdict(state effect.State) resolve.Verdict {
	v := resolve.Verdict{ID: retryproof.Of("effect", request(0).Scope), By: "operator alice", Reason: "seen in the dashboard",
		Finish: effect.Finish{State: state, Result: []byte("by hand")}}
	if state == effect.Succeeded {
		v.Finish.Events = []retryproof.Event{{ID: v.ID.Sub("SUCCEEDED"), Group: "m1", At: start}}
	}
	return v
}

func (b *bench) decide(r *resolve.Resolver, v resolve.Verdict, code retryproof.Code) effect.Guard {
	b.t.Helper()
	g, err := r.Decide(context.Background(), v)
	if retryproof.CodeOf(err) != code || (err == nil) != (code == "") {
		b.t.Errorf("Decide %s: got %v, want %q", v.Finish.State, err, code)
	}
	if code != "" && code != retryproof.CodeUnknown && retryproof.OutcomeOf(err) != retryproof.NotDone {
		b.t.Errorf("got %v, want NotDone", err)
	}
	return g
}

// case 22: a person's verdict reaches the key, with who, when and why.
func TestAVerdictReachesTheKey(t *testing.T) {
	for state, repeat := range map[effect.State]effect.Verdict{effect.Succeeded: effect.Replay, effect.Failed: effect.Replay, effect.Void: effect.Voided} {
		t.Run(string(state), func(t *testing.T) {
			b := newBench(t)
			b.unknown(1)
			b.clock.Advance(time.Hour)
			r := b.resolver(noAnswer, resolve.Config{})
			if g := b.decide(r, b.verdict(state), ""); g.State != state || g.Owner != "" || g.SettledBy != "operator alice" {
				t.Errorf("got %+v", g)
			}
			b.wantState(state)
			b.wantEvents(map[bool]int64{true: 1}[state == effect.Succeeded])
			b.wantEvidence("verdict verdict")
			if e := b.evidence()[0]; e.By != "operator alice" || e.Seen != "seen in the dashboard" || !e.At.Equal(start.Add(time.Hour)) {
				t.Errorf("got %+v, want who, when and why", e)
			}
			d, _, err := b.engine.Begin(context.Background(), request(0))
			if err != nil || d.Verdict != repeat {
				t.Fatalf("a repeat: got %+v, %v, want verdict %v", d, err, repeat)
			}
			if repeat == effect.Replay && (d.Answer == nil || string(d.Answer.Body) != "final "+string(state)) {
				t.Errorf("a repeat: got %+v, want the final answer", d.Answer)
			}
			b.clock.Advance(time.Hour)
			b.run(r, 0)
			if len(b.asked) != 0 || b.seen["decided"] != 1 {
				t.Errorf("asked at %v, %v, want no question and one decision", b.asked, b.seen)
			}
		})
	}
}

// The same verdict of the same person again is the first one's repeat; anybody else's,
// or another one, is told what it is by now.
func TestAVerdictIsGivenOnce(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	r := b.resolver(noAnswer, resolve.Config{})
	first := b.verdict(effect.Succeeded)
	b.decide(r, first, "")
	b.decide(r, first, "")
	if b.seen["decided"] != 1 {
		t.Errorf("decided: got %d, want 1", b.seen["decided"])
	}
	other := first
	other.By = "operator bob"
	if g := b.decide(r, other, retryproof.CodeMoved); g.State != effect.Succeeded {
		t.Errorf("got %+v, want what it is", g)
	}
	_, err := r.Decide(context.Background(), b.verdict(effect.Failed))
	if retryproof.CodeOf(err) != retryproof.CodeMoved || !strings.Contains(err.Error(), "it is SUCCEEDED by now, not UNKNOWN; nothing was changed") {
		t.Errorf("got %v, want what it is by now", err)
	}
	b.wantState(effect.Succeeded)
	b.wantEvents(1)
	b.wantEvidence("verdict verdict")
}

func TestAVerdictIsForWhatIsUnknownOnly(t *testing.T) {
	b := newBench(t)
	_, a, err := b.engine.Begin(context.Background(), request(0))
	if err != nil || a == nil {
		t.Fatal(err)
	}
	r := b.resolver(charged, resolve.Config{})
	if g := b.decide(r, b.verdict(effect.Failed), retryproof.CodeMoved); g.State != effect.Pending {
		t.Errorf("got %+v, want PENDING", g)
	}
	nobody := b.verdict(effect.Failed)
	nobody.ID = "eff_nobody"
	b.decide(r, nobody, retryproof.CodeNotFound)
	if _, err := a.Finish(context.Background(), effect.Finish{State: effect.Succeeded}); err != nil {
		t.Fatal(err)
	}
	b.decide(r, b.verdict(effect.Void), retryproof.CodeMoved)
	b.wantState(effect.Succeeded)
	b.wantEvidence()
}

// A question that is under way may be what makes it happen: who says FAILED or VOID
// waits for its end. Who says SUCCEEDED does not.
func TestAVerdictWaitsForTheQuestionThatIsAsked(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	var r *resolve.Resolver
	r = b.resolver(func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
		b.decide(r, b.verdict(effect.Void), retryproof.CodeInProgress)
		b.decide(r, b.verdict(effect.Failed), retryproof.CodeInProgress)
		return charged(ctx, g)
	}, resolve.Config{})
	b.run(r, 1)
	b.wantState(effect.Succeeded)
	b.wantEvidence("verdict verdict")
	b.decide(r, b.verdict(effect.Void), retryproof.CodeMoved)
}

func TestASucceededVerdictDoesNotWait(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	var r *resolve.Resolver
	r = b.resolver(func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
		b.decide(r, b.verdict(effect.Succeeded), "")
		return charged(ctx, g)
	}, resolve.Config{})
	b.run(r, 0)
	b.wantState(effect.Succeeded)
	if b.seen["overtaken"] != 1 || b.seen["decided"] != 1 || len(b.alerts) != 0 {
		t.Errorf("got %v, alerts %v, want decided and overtaken", b.seen, b.alerts)
	}
}

// An answer that comes after a verdict and speaks against it is kept, and told once.
func TestAnAnswerAgainstAVerdictIsTold(t *testing.T) {
	for _, to := range []effect.State{effect.Void, effect.Failed} {
		t.Run(string(to), func(t *testing.T) {
			b := newBench(t)
			b.unknown(1)
			var r *resolve.Resolver
			r = b.resolver(func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
				b.clock.Advance(17 * time.Second) // the lease and the margin are over
				b.decide(r, b.verdict(to), "")
				f, err := charged(ctx, g)
				f.Ref = "ch_1"
				return f, err
			}, resolve.Config{})
			b.run(r, 0)
			b.wantState(to)
			b.wantEvents(0)
			b.wantEvidence("conflict conflict ch_1 succeeded although "+string(to), "verdict verdict")
			if len(b.alerts) != 1 {
				t.Errorf("got %d alerts, want 1", len(b.alerts))
			}
		})
	}
}

func TestAVerdictAfterAnAnswerChangesNothing(t *testing.T) {
	b := newBench(t)
	if _, a, err := b.engine.Begin(context.Background(), request(1)); err != nil || a == nil {
		t.Fatal(err)
	} else if _, err := a.Unknown(context.Background()); err != nil {
		t.Fatal(err)
	}
	r := b.resolver(charged, resolve.Config{})
	b.run(r, 1)
	late := b.verdict(effect.Failed)
	late.ID = retryproof.Of("effect", request(1).Scope)
	b.decide(r, late, retryproof.CodeMoved)
	b.wantEvents(1)
}

// A verdict whose COMMIT answer is lost is found to have moved it, once.
func TestAVerdictWhoseCommitIsLost(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	lost := 1
	engine, err := effect.New(loses{b.memory.Effects(), &lost}, effect.Config{Clock: b.clock, Rand: b.rand})
	if err != nil {
		t.Fatal(err)
	}
	b.engine = engine
	r := b.resolver(noAnswer, resolve.Config{})
	b.decide(r, b.verdict(effect.Succeeded), "")
	if lost != 0 || b.seen["decided"] != 1 {
		t.Errorf("got %v with %d answers left to lose, want one decision", b.seen, lost)
	}
	b.wantEvents(1)
	b.wantEvidence("verdict verdict")

	b.unknown(0)
	lost = 1000 // the store never answers again
	b.decide(r, b.verdict(effect.Failed), retryproof.CodeUnknown)
}

// loses loses the answers of settlements.
type loses struct {
	effect.Store
	n *int
}

func (l loses) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	out, err := l.Store.Settle(ctx, s)
	if *l.n > 0 {
		*l.n--
		return effect.Settled{}, errors.New("connection reset after COMMIT")
	}
	return out, err
}

func TestABadVerdictIsRefusedWithEveryProblem(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	r := b.resolver(noAnswer, resolve.Config{})
	postings := []ledger.Posting{{Account: "a", Currency: "USD", Amount: 1, Ref: "r"}, {Account: "b", Currency: "USD", Amount: -1, Ref: "r"}}
	good := b.verdict(effect.Failed)
	for _, c := range []struct {
		change func(*resolve.Verdict)
		want   []string
	}{
		{func(v *resolve.Verdict) { *v = resolve.Verdict{} }, []string{"names no effect", `not ""`, "the name of who", "needs a reason"}},
		{func(v *resolve.Verdict) { v.Finish.State = effect.Unknown }, []string{`not "UNKNOWN"`}},
		{func(v *resolve.Verdict) { v.Finish.State = effect.Pending }, []string{`not "PENDING"`}},
		{func(v *resolve.Verdict) { v.By, v.Reason = strings.Repeat("x", 101), strings.Repeat("x", 1001) }, []string{"1 to 100 bytes", "1 to 1000 bytes"}},
		{func(v *resolve.Verdict) { v.By = "a\x00b" }, []string{"without control characters"}},
		{func(v *resolve.Verdict) { v.Reason = "a\tb" }, []string{"without control characters"}},
		{func(v *resolve.Verdict) { v.Reason = "\xff" }, []string{"without control characters"}},
		{func(v *resolve.Verdict) { v.Finish.Postings = postings }, []string{"only a SUCCEEDED verdict"}},
		{func(v *resolve.Verdict) {
			v.Finish.State, v.Finish.Events = effect.Void, b.verdict(effect.Succeeded).Finish.Events
		}, []string{"only a SUCCEEDED verdict"}},
	} {
		v := good
		c.change(&v)
		_, err := r.Decide(context.Background(), v)
		var e *retryproof.Error
		if !errors.As(err, &e) || e.Code != retryproof.CodeInvalid || e.Outcome != retryproof.NotDone {
			t.Errorf("%+v: got %v, want it refused", v, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(e.Message, want) { // what a problem document shows
				t.Errorf("got %q, want %q", e.Message, want)
			}
		}
	}
	good.Reason = "line one\nline two: " + strings.Repeat("x", 900)
	b.decide(r, good, "")
	b.wantState(effect.Failed)
}

// A verdict that passes its check can be kept as evidence.
func FuzzAVerdictThatPassesCanBeKept(f *testing.F) {
	f.Add("pay_1", "SUCCEEDED", "operator alice", "seen")
	f.Add("", "VOID", "\x00", "\xff")
	f.Fuzz(func(t *testing.T, id, state, by, reason string) {
		v := resolve.Verdict{ID: retryproof.ID(id), By: by, Reason: reason, Finish: effect.Finish{State: effect.State(state)}}
		if v.Check() != nil {
			return
		}
		if err := (effect.Evidence{Name: "verdict", Kind: effect.EvidenceVerdict, By: by, Seen: reason}).Check(); err != nil {
			t.Errorf("%+v: %v", v, err)
		}
	})
}
