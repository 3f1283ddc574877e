package effect_test

import (
	"context"
	"errors"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// twoStores are a key store and a guard store, each of which can go away.
type twoStores struct {
	effect.Keys
	effect.Guards
	keysErr, guardsErr error
	// lateGuardErr fails a guard write after it has happened.
	lateGuardErr error
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
	if s.guardsErr != nil {
		return nil, s.guardsErr
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
				wantCode, wantOutcome := retryproof.CodeUnavailable, retryproof.NotDone
				if name == "cut" { // the guard may be there, and nobody could take it back
					wantCode, wantOutcome = retryproof.CodeUnknown, retryproof.Unknown
				}
				if !errors.As(err, &refusal) || refusal.Code != wantCode || refusal.Outcome != wantOutcome || refusal.RetryAfter <= 0 {
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
