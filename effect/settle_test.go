package effect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retryproof/retryproof/effect"
)

// unknownEffect leaves an effect UNKNOWN at 0.02.
func unknownEffect(l *lab) (*effect.Engine, effect.Guard) {
	l.t.Helper()
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	if _, err := a.Unknown(context.Background()); err != nil {
		l.t.Fatal(err)
	}
	return e, *l.look().Guard
}

func TestOnlyOneResolverLeasesAnEffect(t *testing.T) { // case 19
	l := newLab(t)
	e, g := unknownEffect(l)
	first, mine, err := e.Lease(context.Background(), g, "r1", 15*time.Second)
	if err != nil || !mine || first.Owner != "r1" || first.State != effect.Unknown || first.Tries != 1 || !first.Until.Equal(l.clock.Now().Add(15*time.Second)) {
		t.Fatalf("got %+v, %v, %v, want r1's lease", first, mine, err)
	}
	if _, mine, err := e.Lease(context.Background(), g, "r2", 15*time.Second); mine || err != nil { // the same list
		t.Errorf("the second: got %v, %v, want overtaken", mine, err)
	}
	l.wantClaim("pointer") // a resolver leaves the claim alone
	l.at(16.02)
	if _, mine, _ := e.Lease(context.Background(), first, "r2", time.Second); mine {
		t.Error("leased at exactly until + margin")
	}
	l.clock.Advance(tick)
	if _, mine, _ := e.Lease(context.Background(), first, "r2", time.Second); !mine {
		t.Error("a stale lease is not taken over")
	}
	if _, mine, _ := e.Lease(context.Background(), effect.Guard{ID: "none", Scope: scope}, "r2", time.Second); mine {
		t.Error("leased a guard that is not there")
	}
}

func TestASweepTakesPendingOnlyWhenItIsStale(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	g := *l.look().Guard
	l.at(6.02)
	if _, mine, _ := e.Lease(context.Background(), g, "r1", time.Second); mine {
		t.Error("leased at exactly until + margin")
	}
	l.clock.Advance(tick)
	got, mine, err := e.Lease(context.Background(), g, "r1", time.Second)
	if err != nil || !mine || got.State != effect.Unknown {
		t.Errorf("got %+v, %v, %v, want UNKNOWN and leased", got, mine, err)
	}
	l.finish(a, "from the zombie", effect.Pointer)
	l.wantGuard(effect.Unknown)
}

func TestALostLeaseAnswerIsRecognised(t *testing.T) {
	l := newLab(t)
	e, g := unknownEffect(l)
	l.store.failAfter("Adopt", errLost)
	if got, mine, err := e.Lease(context.Background(), g, "r1", time.Second); err != nil || !mine || got.Tries != 1 {
		t.Errorf("got %+v, %v, %v, want one lease", got, mine, err)
	}
	l.store.failBefore("Adopt", errAway)
	if _, mine, err := e.Lease(context.Background(), g, "r1", time.Second); mine || !errors.Is(err, errAway) {
		t.Errorf("got %v, %v, want the error", mine, err)
	}
}

func settle(l *lab, e *effect.Engine, to effect.State) effect.Guard {
	l.t.Helper()
	out, err := e.Settle(context.Background(), effect.Settle{ID: pay, From: []effect.State{effect.Pending, effect.Unknown}, To: to, By: "webhook", Now: l.clock.Now()})
	if err != nil || out.Guard == nil {
		l.t.Fatalf("Settle: got %v, %v", out, err)
	}
	return *out.Guard
}

func TestAPointerIsRewrittenWhenTheEffectIsFinal(t *testing.T) {
	l := newLab(t)
	e, g := unknownEffect(l)
	expires := l.look().Claim.ExpiresAt
	final := effect.Answer{Status: 200, Body: []byte("final")}
	if changed, err := e.Rewrite(context.Background(), g, final); changed || err != nil {
		t.Errorf("while UNKNOWN: got %v, %v, want nothing", changed, err)
	}
	l.at(11.52)
	g = settle(l, e, effect.Succeeded)
	if changed, err := e.Rewrite(context.Background(), g, final); !changed || err != nil {
		t.Errorf("got %v, %v, want rewritten", changed, err)
	}
	l.wantClaim("final")
	if got := l.look().Claim.ExpiresAt; !got.Equal(expires) {
		t.Errorf("the key's window moved from %v to %v", expires, got)
	}
	if changed, err := e.Rewrite(context.Background(), g, effect.Answer{Body: []byte("another")}); changed || err != nil {
		t.Errorf("a final answer: got %v, %v, want it to stay", changed, err)
	}
	l.wantClaim("final")
	before := l.store.touches()
	if d, _ := l.begin(e, request(), effect.Replay); string(d.Answer.Body) != "final" || l.store.touches()-before != 1 {
		t.Errorf("got %v, want the final answer in one touch", d.Answer)
	}
}

func TestAClaimIsRewrittenOnlyWhenItsOwnerIsStale(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	l.begin(e, request(), effect.Run) // runs on, or has crashed
	g := settle(l, e, effect.Succeeded)
	final := effect.Answer{Body: []byte("final")}
	l.at(6.02)
	if changed, err := e.Rewrite(context.Background(), g, final); changed || err != nil {
		t.Errorf("at until + margin: got %v, %v, want nothing", changed, err)
	}
	l.clock.Advance(tick)
	if changed, err := e.Rewrite(context.Background(), g, final); !changed || err != nil {
		t.Errorf("got %v, %v, want rewritten", changed, err)
	}
	if got, want := l.look().Claim.ExpiresAt, l.clock.Now().Add(time.Hour); !got.Equal(want) {
		t.Errorf("expires at %v, want %v", got, want)
	}
	l.wantClaim("final")
}

func TestRewriteLeavesAnExpiredKeyAlone(t *testing.T) {
	l := newLab(t)
	e, _ := unknownEffect(l)
	g := settle(l, e, effect.Failed)
	l.at(7200)
	if changed, err := e.Rewrite(context.Background(), g, effect.Answer{Body: []byte("x")}); changed || err != nil {
		t.Errorf("got %v, %v, want nothing", changed, err)
	}
	l.store.failBefore("Look", errAway)
	if changed, err := e.Rewrite(context.Background(), g, effect.Answer{}); changed || !errors.Is(err, errAway) {
		t.Errorf("got %v, %v, want the error", changed, err)
	}
}

func TestAWebhookThatIsFasterSettlesAndTheOwnerReadsIt(t *testing.T) { // story W
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	settle(l, e, effect.Succeeded)
	d := l.finish(a, "mine", effect.Replay)
	if d.Answer != nil || d.Guard.SettledBy != "webhook" {
		t.Errorf("got %+v, want the webhook's record", d)
	}
	if g := settle(l, e, effect.Failed); g.State != effect.Succeeded {
		t.Errorf("a late contradiction moved the guard to %s", g.State)
	}
	l.begin(e, request(), effect.Replay)
}
