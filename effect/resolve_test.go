package effect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// resolve asks what became of the key and wants the verdict.
func (l *lab) resolve(e *effect.Engine, want effect.Verdict) effect.Decision {
	l.t.Helper()
	d, err := e.Resolve(context.Background(), effect.Request{Scope: scope})
	if err != nil || d.Verdict != want {
		l.t.Fatalf("Resolve: got verdict %d, error %v, want %d", d.Verdict, err, want)
	}
	return d
}

// wantVoid wants both records to be VOID.
func (l *lab) wantVoid() {
	l.t.Helper()
	l.wantGuard(effect.Void)
	if c := l.look().Claim; c == nil || c.State != effect.ClaimVoid {
		l.t.Errorf("claim: got %+v, want a VOID one", c)
	}
}

// case 14
func TestAKeyThatNobodyUsedIsVoidedForEver(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunAlways)
	d := l.resolve(e, effect.Voided)
	if d.Guard.State != effect.Void || d.Answer != nil || d.RetryAfter != 0 {
		t.Errorf("got %+v, want the VOID record", d)
	}
	if l.saw(effect.SawVoided) != 1 {
		t.Errorf("got %v, want voided once", l.seen)
	}
	late := func(context.Context, *effect.Attempt) (effect.Finish, error) {
		t.Error("a voided request ran")
		return effect.Finish{}, nil
	}
	for i, at := range []float64{0.02, 5, 3600.02, 3600.03, 1e6} { // the VOID claim expires after an hour
		l.at(at)
		d, err := e.Do(context.Background(), request(), late)
		if err != nil || d.Verdict != effect.Voided {
			t.Errorf("at %v s: got verdict %d, %v, want voided", at, d.Verdict, err)
		}
		if got := l.saw(effect.SawVoid); got != i+1 {
			t.Errorf("at %v s: saw %d refusals, want %d", at, got, i+1)
		}
		l.wantGuard(effect.Void)
	}
	l.wantClaim("none") // what the late original claimed is given back
}

func TestAskingAgainIsAnsweredTheSame(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	l.resolve(e, effect.Voided)
	first := l.look()
	l.at(3)
	l.resolve(e, effect.Voided)
	if again := l.look(); again.Claim.Owner != first.Claim.Owner || again.Guard.SettledBy != first.Guard.SettledBy {
		t.Errorf("got %+v, want the first asker's %+v", again, first)
	}
	l.at(7200)
	l.wantClaim("none")
	l.resolve(e, effect.Voided)
	l.wantVoid()
	if l.saw(effect.SawVoided) != 1 {
		t.Errorf("got %v, want voided once", l.seen)
	}
}

func TestAVoidIsKeptAsLongAsAnAnswer(t *testing.T) {
	l := newLab(t)
	l.resolve(l.engine(effect.RerunNever), effect.Voided)
	if got, want := l.look().Claim.ExpiresAt, l.clock.Now().Add(time.Hour); !got.Equal(want) {
		t.Errorf("got an expiry at %v, want %v", got, want)
	}
	l.at(3600.02)
	l.wantVoid()
	l.clock.Advance(tick)
	l.wantClaim("none")
	l.wantGuard(effect.Void)
}

func TestAnOwnerAtWorkIsWaitedForAndLeftAlone(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	for _, c := range []struct {
		at   float64
		want time.Duration
	}{{0.02, 6 * time.Second}, {5.02, time.Second}, {6.02, time.Millisecond}} {
		l.at(c.at)
		if d := l.resolve(e, effect.Busy); d.RetryAfter != c.want || d.Guard.Owner != a.Owner() {
			t.Errorf("at %v s: got RetryAfter %v of %q, want %v", c.at, d.RetryAfter, d.Guard.Owner, c.want)
		}
	}
	l.wantClaim("in progress")
	l.finish(a, "paid", effect.Replay)
	if d := l.resolve(e, effect.Replay); string(d.Answer.Body) != "paid" {
		t.Errorf("got %v, want paid", d.Answer)
	}
	if l.saw(effect.SawVoided) != 0 {
		t.Errorf("got %v, want nothing voided", l.seen)
	}
}

// What a vanished owner left may have happened: nobody may say that it did not.
func TestWhatAVanishedOwnerLeftIsAPointer(t *testing.T) {
	for _, rerun := range reruns {
		t.Run(fmt.Sprint(rerun), func(t *testing.T) {
			l := newLab(t)
			e := l.engine(rerun)
			_, a := l.begin(e, request(), effect.Run)
			l.at(6.02)
			l.clock.Advance(tick)
			if d := l.resolve(e, effect.Pointer); d.Guard.State != effect.Pending || d.Guard.Owner != a.Owner() {
				t.Errorf("got %+v, want what the owner left", d)
			}
			l.wantGuard(effect.Pending) // asking takes nothing over
			l.wantClaim("in progress")
		})
	}
}

func TestAnUnknownOutcomeIsAPointer(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunAlways)
	_, a := l.begin(e, request(), effect.Run)
	if _, err := a.Unknown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, at := range []float64{0.02, 100, 7200} { // with its claim, and without
		l.at(at)
		if d := l.resolve(e, effect.Pointer); d.Guard.State != effect.Unknown {
			t.Errorf("at %v s: got %+v, want the UNKNOWN record", at, d)
		}
		l.wantGuard(effect.Unknown)
	}
	l.wantClaim("none")
	_, _, err := e.Lease(context.Background(), *l.look().Guard, "R", 15*time.Second) // a resolver asks meanwhile
	if err != nil {
		t.Fatal(err)
	}
	l.resolve(e, effect.Pointer)
}

func TestAFinalOutcomeIsTheAnswer(t *testing.T) {
	for _, state := range []effect.State{effect.Succeeded, effect.Failed} {
		t.Run(string(state), func(t *testing.T) {
			l := newLab(t)
			e := l.engine(effect.RerunNever)
			_, a := l.begin(e, request(), effect.Run)
			f := succeeded("the answer")
			f.State = state
			if _, err := a.Finish(context.Background(), f); err != nil {
				t.Fatal(err)
			}
			if d := l.resolve(e, effect.Replay); d.Answer == nil || string(d.Answer.Body) != "the answer" {
				t.Errorf("got %+v, want the answer", d)
			}
			l.at(7200) // the claim has expired
			d := l.resolve(e, effect.Replay)
			if d.Answer != nil || d.Guard.State != state {
				t.Errorf("got %+v, want the record", d)
			}
			l.wantClaim("none")
			l.begin(e, request(), effect.Replay)
		})
	}
}

// The answer of a reused key is not the answer of the effect.
func TestTheAnswerToAnotherMeaningIsNotShown(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	_, a := l.begin(e, request(), effect.Run)
	l.finish(a, "paid", effect.Replay)
	l.at(7200)
	reused := effect.Begin{Scope: scope, GuardID: pay, Fingerprint: h2, Owner: "B", Now: l.clock.Now(), Until: l.clock.Now().Add(time.Second)}
	if _, err := l.memory.Keys().ClaimKey(context.Background(), reused); err != nil {
		t.Fatal(err)
	}
	done := effect.Completion{Scope: scope, Owner: "B", Answer: answered, ExpiresAt: l.clock.Now().Add(time.Hour)}
	if ok, err := l.memory.Keys().CompleteKey(context.Background(), done); !ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	if d := l.resolve(e, effect.Replay); d.Answer != nil || d.Guard.State != effect.Succeeded {
		t.Errorf("got %+v, want the record alone", d)
	}
}

func TestAnOriginalThatIsFasterIsFound(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	originals := l.engineOn(l.memory.Effects(), effect.RerunNever)
	var a *effect.Attempt
	l.store.onCall("Begin", 1, func() { _, a = l.begin(originals, request(), effect.Run) })
	if d := l.resolve(e, effect.Busy); d.Guard.Owner != a.Owner() || d.RetryAfter != 6*time.Second {
		t.Errorf("got %+v, want the original", d)
	}
	l.finish(a, "paid", effect.Replay)
}

func TestAnOriginalThatIsSlowerFindsTheVoid(t *testing.T) {
	l := newLab(t)
	asker := l.engineOn(l.memory.Effects(), effect.RerunNever)
	l.store.onCall("Begin", 1, func() { l.resolve(asker, effect.Voided) })
	l.begin(l.engine(effect.RerunNever), request(), effect.Voided)
	l.wantVoid()
}

// With two stores an original may have claimed and not recorded yet.
func TestAnOriginalBetweenItsTwoWritesFindsTheVoid(t *testing.T) {
	l := newLab(t)
	stores, store := split(l)
	between := &betweenWrites{twoStores: stores}
	asker := l.engineOn(store, effect.RerunNever)
	between.do = func() { l.resolve(asker, effect.Voided) }
	l.begin(l.engineOn(effect.Split(stores, between), effect.RerunNever), request(), effect.Voided)
	l.wantGuard(effect.Void)
	l.wantClaim("none")
	l.begin(l.engineOn(store, effect.RerunAlways), request(), effect.Voided)
}

// betweenWrites does something after the claim and before the guard.
type betweenWrites struct {
	*twoStores
	do func()
}

func (b *betweenWrites) RecordGuard(ctx context.Context, begin effect.Begin) (*effect.Guard, error) {
	b.do()
	return b.twoStores.RecordGuard(ctx, begin)
}

func TestOriginalAndAskerAtOnceAgree(t *testing.T) {
	l := newLab(t)
	_, apart := split(l)
	for name, store := range map[string]effect.Store{"one store": l.memory.Effects(), "two": apart} {
		e := l.engineOn(store, effect.RerunNever)
		for i := range 100 {
			r := request()
			r.Scope.Key = retryproof.Key(fmt.Sprintf("%s, key %d", name, i))
			var begun, asked effect.Decision
			var beginErr, askErr error
			var both sync.WaitGroup
			both.Go(func() { begun, _, beginErr = e.Begin(context.Background(), r) })
			both.Go(func() { asked, askErr = e.Resolve(context.Background(), effect.Request{Scope: r.Scope}) })
			both.Wait()
			if err := errors.Join(beginErr, askErr); err != nil {
				t.Fatal(err)
			}
			runs := begun.Verdict == effect.Run && asked.Verdict == effect.Busy
			voided := begun.Verdict == effect.Voided && asked.Verdict == effect.Voided
			if !runs && !voided {
				t.Errorf("%s: the original got verdict %d and the asker %d", name, begun.Verdict, asked.Verdict)
			}
		}
	}
}

func TestWithTheStoreDownNothingIsVoided(t *testing.T) {
	for name, script := range map[string]func(*shaky){
		"away":               func(s *shaky) { s.failBefore("Begin", errAway) },
		"read-only":          func(s *shaky) { s.failBefore("Begin", retryproof.Refused(retryproof.CodeReadOnly, "read-only", nil)) },
		"locked all the way": func(s *shaky) { s.failBefore("Begin", slices.Repeat([]error{errLocked}, 5)...) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			e := l.engine(effect.RerunNever)
			script(l.store)
			_, err := e.Resolve(context.Background(), effect.Request{Scope: scope})
			var refusal *retryproof.Error
			if !errors.As(err, &refusal) || refusal.Outcome != retryproof.Unknown || refusal.Code != retryproof.CodeUnavailable || refusal.RetryAfter <= 0 {
				t.Errorf("got %v, want unavailable, unknown and when to come again", err)
			}
			if l.saw(effect.SawVoided) != 0 {
				t.Errorf("got %v, want nothing voided", l.seen)
			}
			_, a := l.begin(e, request(), effect.Run)
			l.finish(a, "paid", effect.Replay)
		})
	}
}

func TestOwnVoidIsRecognisedAfterALostCommit(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	l.store.failAfter("Begin", errLost, errLocked, errLost)
	l.resolve(e, effect.Voided)
	if l.store.calls["Begin"] != 4 || l.saw(effect.SawLostCommit) != 2 || l.saw(effect.SawVoided) != 1 {
		t.Errorf("got %v calls and %v, want 4, 2 lost commits, and voided once", l.store.calls, l.seen)
	}
	l.wantVoid()
}

func TestAVoidThatNobodyConfirmsIsUnknown(t *testing.T) {
	for name, script := range map[string]func(*shaky){
		"it landed":     func(s *shaky) { s.failAfter("Begin", slices.Repeat([]error{errLost}, 5)...) },
		"it never came": func(s *shaky) { s.failBefore("Begin", slices.Repeat([]error{errLost}, 5)...) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			e := l.engine(effect.RerunNever)
			script(l.store)
			_, err := e.Resolve(context.Background(), effect.Request{Scope: scope})
			if retryproof.OutcomeOf(err) != retryproof.Unknown || retryproof.CodeOf(err) != retryproof.CodeUnknown || !errors.Is(err, errLost) {
				t.Errorf("got %v, want unknown", err)
			}
			if l.store.calls["Begin"] != 5 {
				t.Errorf("got %v, want 5 tries", l.store.calls)
			}
			l.resolve(e, effect.Voided) // asked again with the same key
			l.wantVoid()
		})
	}
}

// key-store-down
func TestWithTheKeyStoreDownTheGuardIsVoided(t *testing.T) {
	l := newLab(t)
	stores, store := split(l)
	stores.keysErr = errLost
	e := l.engineOn(store, effect.RerunPending)
	l.resolve(e, effect.Voided)
	if l.saw(effect.SawVoided) != 1 {
		t.Errorf("got %v, want voided once", l.seen)
	}
	l.begin(e, request(), effect.Voided)
	stores.keysErr = nil // back, and empty
	l.wantClaim("none")
	l.begin(e, request(), effect.Voided)
	l.wantClaim("none")
	l.resolve(e, effect.Voided)
	l.wantVoid()

	l.at(10)
	other := request()
	other.Scope.Key = "another"
	_, a := l.begin(e, other, effect.Run)
	stores.keysErr = errAway
	d, err := e.Resolve(context.Background(), effect.Request{Scope: other.Scope})
	if err != nil || d.Verdict != effect.Busy || d.Guard.Owner != a.Owner() {
		t.Errorf("got %+v, %v, want the owner at work", d, err)
	}
}

func TestWithTheGuardDownNoKeyIsVoided(t *testing.T) {
	l := newLab(t)
	stores, store := split(l)
	stores.guardsErr = errAway
	e := l.engineOn(store, effect.RerunNever)
	_, err := e.Resolve(context.Background(), effect.Request{Scope: scope})
	if retryproof.CodeOf(err) != retryproof.CodeUnavailable || retryproof.OutcomeOf(err) != retryproof.Unknown {
		t.Errorf("got %v, want unavailable and unknown", err)
	}
	l.wantClaim("none")
	stores.guardsErr = nil
	l.begin(e, request(), effect.Run)
}

func TestOnlyAWholeScopeIsResolved(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	for _, s := range []retryproof.Scope{{}, {Endpoint: "payments", Caller: "u1"}, {Endpoint: "payments", Key: "k"}, {Caller: "u1", Key: "k"}} {
		if _, err := e.Resolve(context.Background(), effect.Request{Scope: s}); err == nil || retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("%v: got %v, want a refusal", s, err)
		}
	}
	if l.store.touches() != 0 {
		t.Errorf("got %v, want an untouched store", l.store.calls)
	}
}

func TestTheGuardThatIsNamedIsVoided(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	d, err := e.Resolve(context.Background(), effect.Request{Scope: scope, GuardID: "pay_7"})
	if err != nil || d.Verdict != effect.Voided || d.Guard.ID != "pay_7" {
		t.Errorf("got %+v, %v, want pay_7 voided", d, err)
	}
	l.wantGuard("") // the default id's
	r := request()
	r.GuardID = "pay_7"
	l.begin(e, r, effect.Voided)
}
