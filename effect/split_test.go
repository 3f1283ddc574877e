package effect_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// twoStores are a key store and a guard store, each of which can go away.
type twoStores struct {
	effect.Keys
	effect.Guards
	keysErr, guardsErr error
	// lateGuardErr fails a guard write after it has happened, adoptErr a takeover.
	lateGuardErr, adoptErr error
}

func split(l *lab) (*twoStores, effect.Store) {
	s := &twoStores{Keys: l.memory.Keys(), Guards: l.memory.Guards()}
	return s, effect.Split(s, s)
}

func (s *twoStores) ClaimKey(ctx context.Context, b effect.Begin) (*effect.Claim, error) {
	if s.keysErr != nil {
		return nil, s.keysErr
	}
	return s.Keys.ClaimKey(ctx, b)
}

func (s *twoStores) AdoptKey(ctx context.Context, a effect.Adopt) (*effect.Claim, error) {
	if s.keysErr != nil {
		return nil, s.keysErr
	}
	return s.Keys.AdoptKey(ctx, a)
}

func (s *twoStores) CompleteKey(ctx context.Context, c effect.Completion) (bool, error) {
	if s.keysErr != nil {
		return false, s.keysErr
	}
	return s.Keys.CompleteKey(ctx, c)
}

func (s *twoStores) ReleaseKey(ctx context.Context, r effect.Release) error {
	if s.keysErr != nil {
		return s.keysErr
	}
	return s.Keys.ReleaseKey(ctx, r)
}

func (s *twoStores) LookKey(ctx context.Context, k effect.Look) (*effect.Claim, error) {
	if s.keysErr != nil {
		return nil, s.keysErr
	}
	return s.Keys.LookKey(ctx, k)
}

func (s *twoStores) RecordGuard(ctx context.Context, b effect.Begin) (*effect.Guard, error) {
	if s.guardsErr != nil {
		return nil, s.guardsErr
	}
	g, err := s.Guards.RecordGuard(ctx, b)
	if s.lateGuardErr != nil {
		return nil, s.lateGuardErr
	}
	return g, err
}

func (s *twoStores) AdoptGuard(ctx context.Context, a effect.Adopt) (*effect.Guard, error) {
	if err := errors.Join(s.guardsErr, s.adoptErr); err != nil {
		return nil, err
	}
	return s.Guards.AdoptGuard(ctx, a)
}

func (s *twoStores) SettleGuard(ctx context.Context, m effect.Settle) (effect.Settled, error) {
	if s.guardsErr != nil {
		return effect.Settled{}, s.guardsErr
	}
	return s.Guards.SettleGuard(ctx, m)
}

func (s *twoStores) ReleaseGuard(ctx context.Context, r effect.Release) (bool, error) {
	if s.guardsErr != nil {
		return false, s.guardsErr
	}
	return s.Guards.ReleaseGuard(ctx, r)
}

func (s *twoStores) LookGuard(ctx context.Context, k effect.Look) (*effect.Guard, error) {
	if s.guardsErr != nil {
		return nil, s.guardsErr
	}
	return s.Guards.LookGuard(ctx, k)
}

func TestTwoStoresBehaveAsOne(t *testing.T) {
	l := newLab(t)
	_, store := split(l)
	e := l.engineOn(store, effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	l.begin(e, request(), effect.Busy)
	if gone, err := a.Release(context.Background()); !gone || err != nil {
		t.Fatalf("Release: got %v, %v", gone, err)
	}
	l.wantClaim("none")
	_, a = l.begin(e, request(), effect.Run)
	if d, err := a.Unknown(context.Background()); err != nil || d.Verdict != effect.Pointer {
		t.Fatalf("Unknown: got %v, %v", d.Verdict, err)
	}
	l.begin(e, request(), effect.Pointer)
	l.at(1)
	_, b := l.begin(l.engineOn(store, effect.RerunAlways), request(), effect.Run)
	l.finish(b, "paid", effect.Replay)
	l.finish(a, "from the zombie", effect.Replay)
	l.wantClaim("paid")
	l.at(7200)
	l.begin(e, rendered(), effect.Replay)
	l.wantClaim("rendered SUCCEEDED")
}

// key-store-down
func TestWithTheKeyStoreDownTheGuardDecides(t *testing.T) {
	l := newLab(t)
	stores, store := split(l)
	stores.keysErr = errLost
	e := l.engineOn(store, effect.RerunPending)
	_, a1 := l.begin(e, request(), effect.Run)
	l.begin(e, request(), effect.Busy)
	changed := request()
	changed.Fingerprint = h2
	l.begin(e, changed, effect.Mismatch)
	l.at(6.03)
	_, a2 := l.begin(e, request(), effect.Run) // takeover on the guard alone
	l.finish(a1, "from the zombie", effect.Busy)
	l.finish(a2, "paid", effect.Replay)
	d, _ := l.begin(e, rendered(), effect.Replay)
	if d.Answer != nil || d.Guard.State != effect.Succeeded {
		t.Errorf("got %+v, want the guard's answer", d)
	}
	stores.keysErr = nil // back, and empty
	l.begin(e, changed, effect.Mismatch)
	l.wantClaim("none")
	l.begin(e, rendered(), effect.Replay)
	l.wantClaim("rendered SUCCEEDED")
}

func TestAKeyStoreThatGoesDownDuringTheRunLeavesTheGuardToAnswer(t *testing.T) {
	l := newLab(t)
	stores, store := split(l)
	e := l.engineOn(store, effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	stores.keysErr = errLost
	l.finish(a, "paid", effect.Replay)
	stores.keysErr = nil
	l.wantClaim("in progress")
	l.begin(e, request(), effect.Replay) // the guard is believed before the claim
	l.at(6.03)
	l.begin(e, rendered(), effect.Replay)
	l.wantClaim("rendered SUCCEEDED")
}

func TestAKeyStoreThatGoesDownDuringATakeoverLeavesTheGuardToDecide(t *testing.T) {
	l := newLab(t)
	stores, store := split(l)
	e := l.engineOn(store, effect.RerunPending)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(6.03)
	counting := &shaky{Store: store}
	counting.onCall("Adopt", 1, func() { stores.keysErr = errLost })
	_, b := l.begin(l.engineOn(counting, effect.RerunPending), request(), effect.Run)
	l.finish(b, "paid", effect.Replay)
	stores.keysErr = nil
	l.begin(e, rendered(), effect.Replay)
	l.wantClaim("rendered SUCCEEDED") // the first owner's claim, stale by now
}

// case 28
func TestWithTheGuardDownNothingRunsAndNoClaimIsLeft(t *testing.T) {
	for name, cause := range map[string]error{
		"read-only": retryproof.Refused(retryproof.CodeReadOnly, "the ledger is read-only", nil),
		"away":      errAway,
		"cut":       errLost,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			stores, store := split(l)
			e := l.engineOn(store, effect.RerunNever)
			stores.guardsErr = cause
			for range 20 {
				_, err := e.Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) {
					t.Error("it ran")
					return effect.Finish{}, nil
				})
				var refusal *retryproof.Error
				wantCode := retryproof.CodeUnavailable
				if name == "cut" { // the guard may be there, and nobody could take it back
					wantCode = retryproof.CodeUnknown
				}
				if !errors.As(err, &refusal) || refusal.Code != wantCode || refusal.Outcome != retryproof.Unknown || refusal.RetryAfter <= 0 {
					t.Fatalf("got %v, want %s and when to come again", err, wantCode)
				}
				l.wantClaim("none")
			}
			stores.guardsErr = nil
			_, a := l.begin(e, request(), effect.Run)
			l.finish(a, "paid", effect.Replay)
		})
	}
}

func TestAGuardRecordedWithoutAnAnswerIsTakenBack(t *testing.T) {
	l := newLab(t)
	stores, store := split(l)
	e := l.engineOn(store, effect.RerunNever)
	stores.lateGuardErr = errLost
	if _, _, err := e.Begin(context.Background(), request()); retryproof.CodeOf(err) != retryproof.CodeUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
	l.wantGuard("")
	l.wantClaim("none")
}

func TestARepeatThatCannotReadTheGuardIsUnavailable(t *testing.T) {
	l := newLab(t)
	stores, store := split(l)
	e := l.engineOn(store, effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	stores.guardsErr = errAway
	if _, _, err := e.Begin(context.Background(), request()); retryproof.CodeOf(err) != retryproof.CodeUnavailable {
		t.Errorf("in progress: got %v, want unavailable", err)
	}
	if gone, err := a.Release(context.Background()); gone || err == nil {
		t.Errorf("Release: got %v, %v, want an error: while the guard is there nobody else may run", gone, err)
	}
	l.wantClaim("in progress")
	stores.guardsErr = nil
	l.finish(a, "paid", effect.Replay)
	stores.guardsErr = errAway
	if d, _ := l.begin(e, request(), effect.Replay); string(d.Answer.Body) != "paid" { // the claim has it
		t.Errorf("got %v, want paid", d.Answer)
	}
}

func TestASettlementReadBackCompletesTheClaimToo(t *testing.T) {
	l := newLab(t)
	_, store := split(l)
	counting := &shaky{Store: store}
	_, a := l.begin(l.engineOn(counting, effect.RerunNever), request(), effect.Run)
	done := effect.Settle{ID: pay, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: a.Owner(), Fenced: true, Now: l.clock.Now()}
	if out, err := l.memory.Guards().SettleGuard(context.Background(), done); err != nil || !out.Moved { // landed, unanswered
		t.Fatalf("got %v, %v", out, err)
	}
	counting.failBefore("Settle", errLost)
	l.finish(a, "paid", effect.Replay)
	l.wantClaim("paid")
}

// cases 6 and 28: the key store is away for one request only, a double tap finds it
// back, and the first one did nothing after all.
func TestADoubleTapLeavesNoPointerToAGuardThatMayGo(t *testing.T) {
	for _, rerun := range reruns {
		t.Run(fmt.Sprint("rerun", rerun), func(t *testing.T) {
			l := newLab(t)
			stores, store := split(l)
			e := l.engineOn(store, rerun)
			stores.keysErr = errAway
			_, a := l.begin(e, request(), effect.Run) // the guard alone is recorded
			stores.keysErr = nil
			l.begin(e, request(), effect.Busy)
			l.wantClaim("none") // the second tap's own is given back
			if gone, err := a.Release(context.Background()); !gone || err != nil {
				t.Fatalf("got %v, %v, want the guard gone", gone, err)
			}
			_, a = l.begin(e, request(), effect.Run)
			l.finish(a, "paid", effect.Replay)
			l.wantClaim("paid")
		})
	}
}

// cases 6 and 28
func TestAPointerWithoutAGuardIsTakenOverWhereTheEffectMayRunAgain(t *testing.T) {
	for _, rerun := range reruns {
		t.Run(fmt.Sprint("rerun", rerun), func(t *testing.T) {
			l := newLab(t)
			_, store := split(l)
			e := l.engineOn(store, rerun)
			ask := effect.Begin{Scope: scope, GuardID: pay, Fingerprint: h1, Owner: "A1", Now: l.clock.Now(), Until: l.clock.Now().Add(time.Second)}
			if _, err := l.memory.Keys().ClaimKey(context.Background(), ask); err != nil {
				t.Fatal(err)
			}
			done := effect.Completion{Scope: scope, Owner: "A1", ExpiresAt: l.clock.Now().Add(time.Hour)}
			if ok, err := l.memory.Keys().CompleteKey(context.Background(), done); !ok || err != nil {
				t.Fatalf("got %v, %v, want a pointer", ok, err)
			}
			if rerun == effect.RerunNever { // its guard may be lost, and it may have run
				_, _, err := e.Begin(context.Background(), request())
				if retryproof.CodeOf(err) != retryproof.CodeUnavailable || retryproof.OutcomeOf(err) != retryproof.Unknown {
					t.Errorf("got %v, want unavailable and unknown", err)
				}
				return
			}
			_, a := l.begin(e, request(), effect.Run)
			if !a.TookOver() {
				t.Error("got a first request, want one that knows that another may have run")
			}
			l.finish(a, "paid", effect.Replay)
			l.wantClaim("paid")
		})
	}
}

// case 7
func TestAReplayWithoutTheGuardKnowsHowTheEffectEnded(t *testing.T) {
	for _, state := range []effect.State{effect.Succeeded, effect.Failed} {
		for _, apart := range []bool{false, true} {
			t.Run(fmt.Sprint(state, apart), func(t *testing.T) {
				l := newLab(t)
				var store effect.Store = l.store
				if apart {
					_, store = split(l)
				}
				e := l.engineOn(store, effect.RerunNever)
				for range 2 {
					d, err := e.Do(context.Background(), request(), func(context.Context, *effect.Attempt) (effect.Finish, error) {
						return effect.Finish{State: state, Answer: effect.Answer{Body: []byte("no funds")}}, nil
					})
					if err != nil || d.Verdict != effect.Replay || d.State != state || d.Err() != nil {
						t.Errorf("got %v, %q, %v, want a replay of %s", d.Verdict, d.State, err, state)
					}
				}
				d, err := e.Resolve(context.Background(), effect.Request{Scope: scope})
				if err != nil || d.Verdict != effect.Replay || d.State != state {
					t.Errorf("the question: got %v, %q, %v, want %s", d.Verdict, d.State, err, state)
				}
				l.at(2 * 3600) // the answer has expired
				for range 2 {  // the first one fills the claim again
					if d, _ := l.begin(e, rendered(), effect.Replay); d.State != state {
						t.Errorf("later: got %q, want %q", d.State, state)
					}
				}
			})
		}
	}
}

// The two moments of Split at which only the claim is there.
func TestTheQuestionBetweenClaimAndGuardIsNotAnsweredAsFinal(t *testing.T) {
	l := newLab(t)
	stores, store := split(l)
	e := l.engineOn(store, effect.RerunNever)
	ask := effect.Begin{Scope: scope, GuardID: pay, Fingerprint: h1, Owner: "A1", Now: l.clock.Now(), Until: l.clock.Now().Add(time.Second)}
	if _, err := l.memory.Keys().ClaimKey(context.Background(), ask); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		seen effect.Seen
		want effect.Verdict
	}{
		{"claimed, no guard", effect.Seen{Claim: l.look().Claim}, effect.Busy},
		{"nothing", effect.Seen{}, effect.Busy},
		{"a pointer, no guard", effect.Seen{Claim: &effect.Claim{State: effect.Complete, Fingerprint: h1}}, effect.Busy},
		{"a final answer, no guard", effect.Seen{Claim: &effect.Claim{State: effect.Complete, Fingerprint: h1, Answer: answered}}, effect.Replay},
	} {
		d, err := l.engineOn(&stub{seen: c.seen}, effect.RerunNever).Resolve(context.Background(), effect.Request{Scope: scope})
		if err != nil || d.Verdict != c.want || (d.Answer != nil) != (c.want == effect.Replay) {
			t.Errorf("%s: got %v, answer %v, error %v, want %v", c.name, d.Verdict, d.Answer, err, c.want)
		}
	}
	// The guard's row decides: nothing had run, so the key is voided.
	if d, err := e.Resolve(context.Background(), effect.Request{Scope: scope}); err != nil || d.Verdict != effect.Voided {
		t.Errorf("got %v, %v, want voided", d.Verdict, err)
	}
	stores.keysErr = errAway
	if d, err := e.Resolve(context.Background(), effect.Request{Scope: scope}); err != nil || d.Verdict != effect.Voided {
		t.Errorf("without the key store: got %v, %v, want voided", d.Verdict, err)
	}
}

// An answer that never came may have taken the guard over: giving the claim back would
// let another run beside it.
func TestATakeoverWithoutAnAnswerKeepsTheClaim(t *testing.T) {
	for want, cause := range map[string]error{"in progress": errLost, "none": errAway} {
		t.Run(want, func(t *testing.T) {
			l := newLab(t)
			stores, store := split(l)
			ask := effect.Begin{Scope: scope, GuardID: pay, Fingerprint: h1, Owner: "A1", Now: l.clock.Now(), Until: l.clock.Now().Add(5 * time.Second)}
			if _, err := l.memory.Keys().ClaimKey(context.Background(), ask); err != nil { // and crashes
				t.Fatal(err)
			}
			l.at(6.03)
			stores.adoptErr = cause
			_, _, err := l.engineOn(store, effect.RerunNever).Begin(context.Background(), request())
			if retryproof.CodeOf(err) != retryproof.CodeUnavailable || retryproof.OutcomeOf(err) != retryproof.Unknown {
				t.Errorf("got %v, want unavailable and unknown", err)
			}
			l.wantClaim(want)
		})
	}
}
