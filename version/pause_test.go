package version_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/store/memory"
	"github.com/retryproof/retryproof/version"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// service pauses and resumes subscription sub_1, and creates and closes subscriptions.
// The guard of an action's key answers for the action; the version decides whether it
// is applied.
type service struct {
	t      *testing.T
	clock  *clocktest.Clock
	store  *memory.Store
	engine *effect.Engine
	// applied counts state changes by what they made.
	applied map[string]int
}

func newService(t *testing.T) *service {
	t.Helper()
	t.Parallel()
	s := &service{t: t, clock: clocktest.New(start), store: memory.New(), applied: map[string]int{}}
	engine, err := effect.New(s.store.Effects(), effect.Config{Clock: s.clock, AnswerTTL: time.Hour, Rerun: effect.RerunAlways})
	if err != nil {
		t.Fatal(err)
	}
	s.engine = engine
	return s
}

// at moves the time to so many seconds after the start.
func (s *service) at(seconds float64) {
	s.clock.Advance(start.Add(time.Duration(seconds * float64(time.Second))).Sub(s.clock.Now()))
}

func request(endpoint string, key retryproof.Key, meaning string) effect.Request {
	return effect.Request{Scope: retryproof.Scope{Endpoint: endpoint, Caller: "u1", Key: key},
		Fingerprint: retryproof.FingerprintOf(retryproof.Text("do", meaning)),
		Render:      func(g effect.Guard) effect.Answer { return effect.Answer{Body: g.Result} }}
}

// action is what K1 or K2 asks for: a state, under a version.
func action(key retryproof.Key, n int64, state string) (effect.Request, version.Write) {
	r := request("subscriptions/sub_1", key, fmt.Sprint(state, " by ", n))
	line := version.Line{Stream: "subscriptions", Caller: "u1", Device: "D1"}
	return r, version.Write{Line: line, Subject: "sub_1", Version: n, Action: string(retryproof.Of("effect", r.Scope)), Value: []byte(state)}
}

// outcome is an action's own, as it is recorded under its key.
func outcome(r version.Result) []byte {
	if r.Verdict == version.Stale {
		return fmt.Appendf(nil, "nothing done: %s since %d", r.Mark.Value, r.Mark.Version)
	}
	return fmt.Appendf(nil, "%s by %d", r.Mark.Value, r.Mark.Version)
}

// apply is the effect of an action. Repeat is the second run of one that was applied.
func (s *service) apply(ctx context.Context, w version.Write) (version.Result, error) {
	w.Now = s.clock.Now()
	r, err := s.store.Versions().Apply(ctx, w)
	if r.Verdict == version.Applied {
		s.applied[string(w.Value)]++
	}
	return r, err
}

// set sends an action and returns its answer.
func (s *service) set(key retryproof.Key, n int64, state string) string {
	s.t.Helper()
	r, w := action(key, n, state)
	return s.do(r, func(ctx context.Context) ([]byte, error) {
		result, err := s.apply(ctx, w)
		return outcome(result), err
	})
}

func (s *service) do(r effect.Request, run func(ctx context.Context) ([]byte, error)) string {
	s.t.Helper()
	d, err := s.engine.Do(context.Background(), r, func(ctx context.Context, _ *effect.Attempt) (effect.Finish, error) {
		result, err := run(ctx)
		return effect.Finish{State: effect.Succeeded, Answer: effect.Answer{Body: result}, Result: result}, err
	})
	switch {
	case err != nil:
		s.t.Fatal(err)
	case d.Answer != nil:
		return string(d.Answer.Body)
	case d.Guard != nil:
		return string(d.Guard.Result)
	}
	return ""
}

// want checks an answer, the state and how often it changed.
func (s *service) want(what, got, want, state string, paused, resumed int) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: got answer %q, want %q", what, got, want)
	}
	m, err := s.store.Versions().Look(context.Background(), version.Line{Stream: "subscriptions", Caller: "u1", Device: "D1"}, "sub_1")
	if err != nil || m == nil || string(m.Value) != state {
		s.t.Errorf("%s: got state %+v and error %v, want %q", what, m, err, state)
	}
	if s.applied["paused"] != paused || s.applied["active"] != resumed {
		s.t.Errorf("%s: got changes %v, want %d pauses and %d resumes", what, s.applied, paused, resumed)
	}
}

// case 26: pause(K1), resume(K2), and late copies of pause(K1).
func TestLateCopyOfAPauseDoesNotPauseAgain(t *testing.T) {
	s := newService(t)
	s.want("pause", s.set("K1", 1, "paused"), "paused by 1", "paused", 1, 0)
	s.at(10)
	s.want("resume", s.set("K2", 2, "active"), "active by 2", "active", 1, 1)
	for _, late := range []float64{60, 7200, 7201} { // K1's answer expires after an hour; its guard stays
		s.at(late)
		s.want(fmt.Sprint("pause at ", late), s.set("K1", 1, "paused"), "paused by 1", "active", 1, 1)
	}
	s.want("resume again", s.set("K2", 2, "active"), "active by 2", "active", 1, 1)
}

// case 26: the first copy of the pause to arrive is overtaken by the resume.
func TestPauseThatComesAfterTheResumeDoesNothing(t *testing.T) {
	s := newService(t)
	s.want("resume", s.set("K2", 2, "active"), "active by 2", "active", 0, 1)
	for _, late := range []float64{60, 61, 7200} {
		s.at(late)
		s.want(fmt.Sprint("pause at ", late), s.set("K1", 1, "paused"), "nothing done: active since 2", "active", 0, 1)
	}
}

// case 26: a server applies K1 and dies before it records K1's outcome. Where the two
// are two transactions, the outcome can be lost; the state cannot be spoiled.
func TestPauseOfAVanishedServerIsNotAppliedTwice(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		t.Run(fmt.Sprint("resumed=", resumed), func(t *testing.T) {
			s := newService(t)
			r, w := action("K1", 1, "paused")
			if _, a, err := s.engine.Begin(t.Context(), r); err != nil || a == nil {
				t.Fatalf("got attempt %v and error %v, want one", a, err)
			}
			if _, err := s.apply(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			s.at(20) // the lease is stale
			if !resumed {
				s.want("pause", s.set("K1", 1, "paused"), "paused by 1", "paused", 1, 0)
				return
			}
			s.set("K2", 2, "active")
			s.want("pause", s.set("K1", 1, "paused"), "nothing done: active since 2", "active", 1, 1)
		})
	}
}

// case 26: in one transaction, the version and the outcome are there both or not at all.
func TestOutcomeAndVersionCommitTogether(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		t.Run(fmt.Sprint("crashed=", crashed), func(t *testing.T) {
			s := newService(t)
			ctx := t.Context()
			r, w := action("K1", 1, "paused")
			_, a, err := s.engine.Begin(ctx, r)
			if err != nil || a == nil {
				t.Fatalf("got attempt %v and error %v, want one", a, err)
			}
			crash := fmt.Errorf("the server dies before COMMIT")
			err = s.store.Within(func(tx *memory.Tx) error {
				now := s.clock.Now()
				w.Now = now
				result, err := tx.ApplyVersion(ctx, w)
				if err != nil {
					return err
				}
				_, err = tx.Settle(ctx, effect.Settle{ID: a.ID(), From: []effect.State{effect.Pending}, To: effect.Succeeded, By: a.Owner(), Fenced: true,
					Now: now, Result: outcome(result), Claim: &effect.Completion{Scope: r.Scope, Owner: a.Owner(),
						Answer: &effect.Answer{Body: outcome(result)}, ExpiresAt: now.Add(time.Hour)}})
				if err == nil && crashed {
					return crash
				}
				s.applied["paused"]++
				return err
			})
			if err != nil && !crashed {
				t.Fatal(err)
			}
			s.at(20)
			s.set("K2", 2, "active")
			want, paused := "paused by 1", 1
			if crashed { // nothing was there: K1 is overtaken
				want, paused = "nothing done: active since 2", 0
			}
			for _, late := range []float64{60, 7200} {
				s.at(late)
				s.want("pause", s.set("K1", 1, "paused"), want, "active", paused, 1)
			}
		})
	}
}

// create makes a subscription whose name comes from the key, so that every copy means
// the same one.
func (s *service) create(key retryproof.Key) string {
	s.t.Helper()
	r := request("subscriptions", key, "create")
	return s.do(r, func(ctx context.Context) ([]byte, error) {
		result, err := s.store.Locators().Put(ctx, locator.Put{Name: subscription(r.Scope), Place: "open", Now: s.clock.Now()})
		return fmt.Append(nil, result.Verdict), err
	})
}

func subscription(scope retryproof.Scope) locator.Name {
	return locator.Name{Kind: "subscription", Owner: scope.Caller, ID: string(retryproof.Of("sub", scope))}
}

// case 26: the retry of a create whose object is closed creates nothing. The guard of
// its key answers; were the guard lost, the tombstone would still stand in the way.
func TestRetryOfACreateWhoseObjectIsClosedCreatesNothing(t *testing.T) {
	s := newService(t)
	ctx := t.Context()
	if got := s.create("K1"); got != "created" {
		t.Errorf("got %q, want created", got)
	}
	name := subscription(retryproof.Scope{Endpoint: "subscriptions", Caller: "u1", Key: "K1"})
	s.at(10)
	if r, err := s.store.Locators().Delete(ctx, locator.Delete{Name: name, Now: s.clock.Now()}); err != nil || r.Verdict != locator.Deleted {
		t.Fatalf("got %v and error %v, want deleted", r.Verdict, err)
	}
	for _, late := range []float64{60, 7200} {
		s.at(late)
		if got := s.create("K1"); got != "created" {
			t.Errorf("at %v: got %q, want K1's own answer", late, got)
		}
		r, err := s.store.Locators().Put(ctx, locator.Put{Name: name, Place: "open", Now: s.clock.Now()}) // without the guard
		if err != nil || r.Verdict != locator.Gone {
			t.Errorf("at %v: got %v and error %v, want gone", late, r.Verdict, err)
		}
	}
	open, err := s.store.Locators().List(ctx, locator.List{Kind: "subscription", Owner: "u1", Place: "open", Limit: 10})
	if err != nil || len(open) != 0 {
		t.Errorf("got %d open subscriptions and error %v, want none", len(open), err)
	}
}
