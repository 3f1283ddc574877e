package effect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

func TestAFirstRequestTouchesTheStoreTwiceAndAReplayOnce(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	_, a := l.begin(e, request(), effect.Run)
	if d := l.finish(a, "paid", effect.Replay); string(d.Answer.Body) != "paid" {
		t.Errorf("got %q, want paid", d.Answer.Body)
	}
	if got, want := l.store.touches(), 2; got != want {
		t.Errorf("first request: got %d touches, want %d", got, want)
	}
	for range 3 {
		before := l.store.touches()
		d, _ := l.begin(e, request(), effect.Replay)
		if got, want := l.store.touches()-before, 1; got != want {
			t.Errorf("replay: got %d touches, want %d", got, want)
		}
		if d.Answer.Status != 200 || string(d.Answer.Body) != "paid" {
			t.Errorf("got %v, want the stored answer", d.Answer)
		}
	}
	if l.saw(effect.SawFirst) != 1 || l.saw(effect.SawReplay) != 3 || l.saw(effect.SawSettled) != 1 {
		t.Errorf("got %v, want 1 first, 3 replays, 1 settled", l.seen)
	}
}

func TestRepeatsSayWhatTheRecordSays(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	l.at(0.45)
	d, _ := l.begin(e, request(), effect.Busy)
	if got, want := d.RetryAfter, 5570*time.Millisecond; got != want { // 5.02 + 1 − 0.45
		t.Errorf("busy: got RetryAfter %v, want %v", got, want)
	}
	changed := request()
	changed.Fingerprint = h2
	l.begin(e, changed, effect.Mismatch) // case 15
	l.at(5.02)
	if d, err := a.Unknown(context.Background()); err != nil || d.Verdict != effect.Pointer {
		t.Fatalf("Unknown: got %v, %v, want a pointer", d.Verdict, err)
	}
	if got, want := l.look().Claim.ExpiresAt, now.Add(3605020*time.Millisecond); !got.Equal(want) {
		t.Errorf("the pointer expires at %v, want %v", got, want)
	}
	l.at(10)
	before := l.store.touches()
	if d, _ := l.begin(e, request(), effect.Pointer); d.Guard == nil || d.Guard.State != effect.Unknown {
		t.Errorf("pointer: got guard %v, want UNKNOWN", d.Guard)
	}
	l.begin(e, changed, effect.Mismatch) // 3d
	if got, want := l.store.touches()-before, 2; got != want {
		t.Errorf("got %d touches, want %d", got, want)
	}
	if g := l.look().Guard; g.NextAt != now.Add(5020*time.Millisecond) || g.Owner != "" {
		t.Errorf("got NextAt %v and owner %q, want a resolver to ask at once", g.NextAt, g.Owner)
	}
	for _, what := range []string{effect.SawBusy, effect.SawPointer, effect.SawUnknown} {
		if got := l.saw(what); got != 1 {
			t.Errorf("%s: got %d, want 1", what, got)
		}
	}
}

// stub is a store that holds what it is told.
type stub struct {
	effect.Store
	seen effect.Seen
	done []effect.Completion
	gone []effect.Release
}

func (s *stub) Begin(context.Context, effect.Begin) (effect.Seen, error) { return s.seen, nil }

func (s *stub) Adopt(context.Context, effect.Adopt) (effect.Seen, error) { return s.seen, nil }

func (s *stub) Complete(_ context.Context, c effect.Completion) (bool, error) {
	s.done = append(s.done, c)
	return true, nil
}

func (s *stub) Release(_ context.Context, r effect.Release) (bool, error) {
	s.gone = append(s.gone, r)
	return false, nil
}

func TestAVoidedKeyNeverRuns(t *testing.T) {
	l := newLab(t)
	for name, seen := range map[string]effect.Seen{
		"claim":               {Claim: &effect.Claim{State: effect.ClaimVoid, Fingerprint: h1}},
		"guard":               {Guard: &effect.Guard{State: effect.Void}},
		"claimed anew, guard": {Claim: &effect.Claim{State: effect.InProgress, Owner: "somebody", Fingerprint: h1}, Guard: &effect.Guard{State: effect.Void}},
	} {
		s := &stub{seen: seen}
		l.begin(l.engineOn(s, effect.RerunAlways), request(), effect.Voided)
		if len(s.done)+len(s.gone) != 0 {
			t.Errorf("%s: got writes %v %v, want none", name, s.done, s.gone)
		}
	}
	if got, want := l.saw(effect.SawVoid), 3; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestAStoreThatNeverAgreesWithItselfIsUnavailable(t *testing.T) {
	l := newLab(t)
	stale := now.Add(-time.Hour)
	for name, seen := range map[string]effect.Seen{
		"takeover for ever":     {Claim: &effect.Claim{State: effect.InProgress, Owner: "x", Until: stale, Fingerprint: h1}, Guard: &effect.Guard{State: effect.Pending, Owner: "x", Until: stale, Fingerprint: h1}},
		"pointer without a row": {Claim: &effect.Claim{State: effect.Complete, Owner: "x", Fingerprint: h1}},
		"nothing at all":        {},
	} {
		d, a, err := l.engineOn(&stub{seen: seen}, effect.RerunPending).Begin(context.Background(), request())
		if retryproof.CodeOf(err) != retryproof.CodeUnavailable || retryproof.OutcomeOf(err) != retryproof.Unknown || a != nil || d.Verdict != 0 {
			t.Errorf("%s: got %v, %v, want unavailable and unknown", name, d.Verdict, err)
		}
	}
}

func TestBadRequestsTouchNothing(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	for name, c := range map[string]struct {
		change func(*effect.Request)
		want   retryproof.Code
	}{
		"no endpoint":        {func(r *effect.Request) { r.Scope.Endpoint = "" }, retryproof.CodeInvalid},
		"no caller":          {func(r *effect.Request) { r.Scope.Caller = "" }, retryproof.CodeInvalid},
		"no key":             {func(r *effect.Request) { r.Scope.Key = "" }, retryproof.CodeKeyMissing},
		"no fingerprint":     {func(r *effect.Request) { r.Fingerprint = "" }, retryproof.CodeInvalid},
		"broken fingerprint": {func(r *effect.Request) { r.Fingerprint = "x" }, retryproof.CodeInvalid},
		"too late":           {func(r *effect.Request) { r.Arrived = l.clock.Now().Add(-5*time.Second - tick) }, retryproof.CodeTooLate},
	} {
		r := request()
		c.change(&r)
		_, a, err := e.Begin(context.Background(), r)
		outcome := retryproof.NotDone
		if name == "too late" { // an earlier one with its key may have run
			outcome = retryproof.Unknown
		}
		if got := retryproof.CodeOf(err); got != c.want || retryproof.OutcomeOf(err) != outcome || a != nil {
			t.Errorf("%s: got %q (%v), want %q and %v", name, got, err, c.want, outcome)
		}
	}
	if got := l.store.touches(); got != 0 {
		t.Errorf("got %d touches, want 0", got)
	}
	if got := l.saw(effect.SawTooLate); got != 1 {
		t.Errorf("too late: got %d, want 1", got)
	}
}

func TestARequestRunsUpToItsDeadlineFromItsArrival(t *testing.T) {
	l := newLab(t)
	r := request()
	r.Arrived = l.clock.Now().Add(-5 * time.Second)
	_, a := l.begin(l.engine(effect.RerunNever), r, effect.Run)
	if got, want := a.Until(), l.clock.Now(); !got.Equal(want) {
		t.Errorf("got until %v, want %v", got, want)
	}
}

// case 8
func TestACallerThatGoesAwayDoesNotStopWhatItHasStarted(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(context.Background())
	d, err := l.engine(effect.RerunNever).Do(ctx, request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
		l.at(0.12)
		cancel()
		l.at(0.54)
		if err := context.Cause(ctx); err != nil {
			t.Errorf("the run's context ended: %v", err)
		}
		if end, ok := ctx.Deadline(); !ok || !end.Equal(now.Add(5020*time.Millisecond)) {
			t.Errorf("got deadline %v, want 5.02", end)
		}
		return succeeded("paid"), nil
	})
	if err != nil || d.Verdict != effect.Replay {
		t.Fatalf("got %v, %v, want the answer", d.Verdict, err)
	}
	l.wantGuard(effect.Succeeded)
	l.wantClaim("paid")
}

func TestNoSideEffectBeginsPastTheDeadline(t *testing.T) {
	l := newLab(t)
	_, err := l.engine(effect.RerunNever).Do(context.Background(), request(), func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
		l.at(5.02)
		return effect.Finish{}, context.Cause(ctx)
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	l.wantGuard(effect.Unknown)
	l.wantClaim("pointer")
}

func TestAWaitingRepeatGetsTheAnswer(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	_, a := l.begin(e, request(), effect.Run)
	l.store.onCall("Look", 10, func() { l.finish(a, "paid", effect.Replay) })
	r := request()
	r.Wait = 2 * time.Second
	if d, _ := l.begin(e, r, effect.Replay); string(d.Answer.Body) != "paid" {
		t.Errorf("got %q, want paid", d.Answer.Body)
	}
	if got, want := l.clock.Now(), now.Add(520*time.Millisecond); !got.Equal(want) { // 10 polls
		t.Errorf("answered at %v, want %v", got, want)
	}
}

func TestAWaitEnds(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	l.begin(e, request(), effect.Run)
	r := request()
	r.Wait = 2 * time.Second
	l.begin(e, r, effect.Busy)
	if got, want := l.clock.Now(), now.Add(2020*time.Millisecond); !got.Equal(want) {
		t.Errorf("answered at %v, want %v", got, want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.store.onCall("Look", l.store.calls["Look"]+1, cancel)
	if _, _, err := e.Begin(ctx, r); retryproof.CodeOf(err) != retryproof.CodeUnavailable {
		t.Errorf("a caller that goes away: got %v, want unavailable", err)
	}
	r.Wait = time.Hour
	until := l.clock.Now().Add(30 * time.Second) // MaxWait
	_, _, err := e.Begin(context.Background(), r)
	if got := l.clock.Now(); err != nil || got.After(until) {
		t.Errorf("a long wait: got %v at %v, want an answer by %v", err, got, until)
	}
}

func TestAWaitingRepeatOfAReleasedKeyRuns(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	_, a := l.begin(e, request(), effect.Run)
	l.store.onCall("Look", 1, func() {
		if gone, err := a.Release(context.Background()); !gone || err != nil {
			t.Errorf("Release: got %v, %v", gone, err)
		}
	})
	r := request()
	r.Wait = 2 * time.Second
	_, b := l.begin(e, r, effect.Run)
	if b.TookOver() {
		t.Error("got a takeover, want a first run")
	}
	l.finish(b, "paid", effect.Replay)
}

func TestAnExpiredKeyIsAnsweredFromTheGuardAndWrittenAgain(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	l.finish(a, "paid", effect.Replay)
	l.at(7200)
	l.wantClaim("none")
	d, _ := l.begin(e, rendered(), effect.Replay) // event 20
	if d.Answer != nil || d.Guard == nil || d.Guard.State != effect.Succeeded {
		t.Errorf("got answer %v and guard %v, want the guard to answer", d.Answer, d.Guard)
	}
	l.wantClaim("rendered SUCCEEDED")
	before := l.store.touches()
	if d, _ := l.begin(e, rendered(), effect.Replay); d.Answer == nil || l.store.touches()-before != 1 {
		t.Errorf("got %v in %d touches, want the kept answer in 1", d.Answer, l.store.touches()-before)
	}
	l.at(14400)
	l.begin(e, request(), effect.Replay) // without Render
	l.wantClaim("pointer")
}

func TestAKeyReusedAfterItsWindowLeavesNoTrace(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	_, a := l.begin(e, request(), effect.Run)
	l.finish(a, "paid", effect.Replay)
	l.at(7200)
	changed := rendered()
	changed.Fingerprint = h2
	l.begin(e, changed, effect.Mismatch) // 3d, after the claim has expired
	l.wantClaim("none")
	l.begin(e, rendered(), effect.Replay)
	l.wantClaim("rendered SUCCEEDED")
}

func TestAReusedKeyThatCrashedAfterItsClaimMisleadsNobody(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunPending)
	l.begin(e, request(), effect.Run) // and crashes
	l.at(7200)
	changed := effect.Begin{Scope: scope, GuardID: pay, Fingerprint: h2, Owner: "A9", Now: l.clock.Now(), Until: l.clock.Now().Add(5 * time.Second)}
	_ = l.memory.Keys().ReleaseKey(context.Background(), effect.Release{Scope: scope, Owner: l.look().Claim.Owner})
	if _, err := l.memory.Keys().ClaimKey(context.Background(), changed); err != nil {
		t.Fatal(err)
	}
	_, a := l.begin(e, request(), effect.Run)
	l.finish(a, "paid", effect.Replay)
	if c := l.look().Claim; c.Owner != "A9" || c.State != effect.InProgress {
		t.Errorf("got %+v, want the other claim untouched", c)
	}
	l.begin(e, rendered(), effect.Replay)
	l.wantClaim("in progress")
	r := request()
	r.Fingerprint = h2
	l.begin(e, r, effect.Mismatch)
	l.at(7300) // the other claim is stale
	if changed, err := e.Rewrite(context.Background(), *l.look().Guard, effect.Answer{Body: []byte("x")}); changed || err != nil {
		t.Errorf("Rewrite: got %v, %v, want nothing", changed, err)
	}
}

func TestWhatIsPrintedNeverShowsAKey(t *testing.T) {
	l := newLab(t)
	e := l.engine(effect.RerunNever)
	d, a := l.begin(e, request(), effect.Run)
	seen := l.look()
	for name, v := range map[string]any{
		"Scope": scope, "Request": request(), "Begin": effect.Begin{Scope: scope}, "Adopt": effect.Adopt{Scope: scope}, "Claim": *seen.Claim,
		"*Claim": seen.Claim, "Guard": *seen.Guard, "Seen": seen, "Decision": d, "Attempt": a, "Completion": effect.Completion{Scope: scope},
		"Settle": effect.Settle{Claim: &effect.Completion{Scope: scope}}, "Release": effect.Release{Scope: scope}, "Look": effect.Look{Scope: scope},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%q"} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, string(scope.Key)) {
				t.Errorf("%s with %s shows the key: %s", name, verb, got)
			}
		}
	}
}

func TestConfigIsCheckedWithAllItsProblems(t *testing.T) {
	t.Parallel()
	if err := (effect.Config{}).Validate(); err != nil {
		t.Errorf("the zero value: got %v, want nil", err)
	}
	bad := effect.Config{Deadline: -1, Margin: -1, MaxWait: -1, PollEvery: -1, WriteTimeout: -1, Retries: -1, Rerun: 9, AnswerTTL: -time.Hour}
	err := bad.Validate()
	for _, want := range []string{"Deadline is", "Margin is", "MaxWait is", "PollEvery is", "WriteTimeout is", "Retries is", "Rerun is", "AnswerTTL ≥ Deadline + Margin fails"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if _, got := effect.New(&stub{}, bad); got == nil || got.Error() != err.Error() {
		t.Errorf("New: got %v, want %v", got, err)
	}
	if e, err := effect.New(nil, effect.Config{}); e != nil || err == nil {
		t.Errorf("New without a store: got %v, %v, want an error", e, err)
	}
	if err := (effect.Config{Deadline: 5 * time.Second, Margin: time.Second, AnswerTTL: 6*time.Second - 1}).Validate(); err == nil {
		t.Error("an answer that expires inside its own lease is accepted")
	}
	if err := (effect.Config{Deadline: 5 * time.Second, Margin: time.Second, AnswerTTL: 6 * time.Second}).Validate(); err != nil {
		t.Errorf("AnswerTTL = Deadline + Margin: got %v, want nil", err)
	}
}
