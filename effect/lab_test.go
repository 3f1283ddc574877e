package effect_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/memory"
)

var (
	scope = retryproof.Scope{Endpoint: "payments", Caller: "u1", Key: "0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e07"}
	pay   = retryproof.Of("effect", scope)
	// errLost is a COMMIT without an answer.
	errLost = errors.New("the connection is gone")
	// errAway says that nothing was written.
	errAway = retryproof.Refused(retryproof.CodeUnavailable, "the database is away", nil)
)

// lab is one store in virtual time, and what engines did to it. The clock stands
// at the story's 0.02 s, when the first request arrives.
type lab struct {
	t      *testing.T
	clock  *clocktest.Clock
	memory *memory.Store
	store  *shaky
	rand   *seeded

	mu   sync.Mutex
	seen map[string]int
}

func newLab(t *testing.T) *lab {
	t.Parallel()
	l := &lab{t: t, clock: clocktest.New(now.Add(20 * time.Millisecond)), memory: memory.New(), seen: map[string]int{}, rand: &seeded{r: rand.New(rand.NewPCG(1, 2))}}
	l.store = &shaky{Store: l.memory.Effects()}
	return l
}

// at moves the clock to the given second of the story.
func (l *lab) at(seconds float64) {
	l.t.Helper()
	d := now.Add(time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)).Sub(l.clock.Now())
	if d < 0 {
		l.t.Fatalf("the clock is past %v s", seconds)
	}
	l.clock.Advance(d)
}

func (l *lab) engine(rerun effect.Rerun) *effect.Engine { return l.engineOn(l.store, rerun) }

func (l *lab) engineOn(s effect.Store, rerun effect.Rerun) *effect.Engine {
	l.t.Helper()
	e, err := effect.New(s, effect.Config{Rerun: rerun, AnswerTTL: time.Hour, Clock: l.clock, Rand: l.rand, Observe: func(o effect.Observation) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen[o.What]++
	}})
	if err != nil {
		l.t.Fatal(err)
	}
	return e
}

func (l *lab) saw(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[what]
}

// begin begins and wants the verdict.
func (l *lab) begin(e *effect.Engine, r effect.Request, want effect.Verdict) (effect.Decision, *effect.Attempt) {
	l.t.Helper()
	d, a, err := e.Begin(context.Background(), r)
	if err != nil {
		l.t.Fatalf("Begin: %v", err)
	}
	if d.Verdict != want || (a != nil) != (want == effect.Run) {
		l.t.Fatalf("Begin: got verdict %d and attempt %v, want %d", d.Verdict, a, want)
	}
	return d, a
}

// finish finishes as Succeeded and wants the verdict.
func (l *lab) finish(a *effect.Attempt, body string, want effect.Verdict) effect.Decision {
	l.t.Helper()
	d, err := a.Finish(context.Background(), succeeded(body))
	if err != nil || d.Verdict != want {
		l.t.Fatalf("Finish: got verdict %d, error %v, want %d", d.Verdict, err, want)
	}
	return d
}

// look reads both records.
func (l *lab) look() effect.Seen {
	l.t.Helper()
	seen, err := l.memory.Effects().Look(context.Background(), effect.Look{Scope: scope, GuardID: pay, Now: l.clock.Now()})
	if err != nil {
		l.t.Fatal(err)
	}
	return seen
}

// wantGuard checks the state of the guard, "" for none.
func (l *lab) wantGuard(want effect.State) {
	l.t.Helper()
	got := effect.State("")
	if g := l.look().Guard; g != nil {
		got = g.State
	}
	if got != want {
		l.t.Errorf("guard: got %q, want %q", got, want)
	}
}

// wantClaim checks the claim: "none", "in progress", "pointer", or the answer.
func (l *lab) wantClaim(want string) {
	l.t.Helper()
	got := "none"
	if c := l.look().Claim; c != nil {
		switch {
		case c.State == effect.InProgress:
			got = "in progress"
		case c.Answer == nil:
			got = "pointer"
		default:
			got = string(c.Answer.Body)
		}
	}
	if got != want {
		l.t.Errorf("claim: got %q, want %q", got, want)
	}
}

func request() effect.Request { return effect.Request{Scope: scope, Fingerprint: h1} }

// rendered is a request that can write an expired claim again.
func rendered() effect.Request {
	r := request()
	r.Render = func(g effect.Guard) effect.Answer { return effect.Answer{Body: []byte("rendered " + string(g.State))} }
	return r
}

func succeeded(body string) effect.Finish {
	return effect.Finish{State: effect.Succeeded, Answer: effect.Answer{Status: 200, Body: []byte(body)}}
}

// seeded repeats its numbers in every run.
type seeded struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (s *seeded) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Uint64()
}

// shaky counts the calls of a store and fails as it is told: instead of a call,
// or after it, as when the answer of a COMMIT is lost.
type shaky struct {
	effect.Store
	mu     sync.Mutex
	calls  map[string]int
	before map[string][]error
	after  map[string][]error
	// hook runs before the call of the given name and number, from 1.
	hook map[string]func()
	slow map[string]func()
}

func (s *shaky) failBefore(method string, errs ...error) {
	s.before = map[string][]error{method: errs}
}

func (s *shaky) failAfter(method string, errs ...error) { s.after = map[string][]error{method: errs} }

func (s *shaky) onCall(method string, n int, do func()) {
	s.hook = map[string]func(){fmt.Sprint(method, n): do}
}

// slowAfter runs do after the first call of a method.
func (s *shaky) slowAfter(method string, do func()) { s.slow = map[string]func(){method: do} }

func (s *shaky) touches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		n += c
	}
	return n
}

func next(from map[string][]error, method string) error {
	if len(from[method]) == 0 {
		return nil
	}
	err := from[method][0]
	from[method] = from[method][1:]
	return err
}

func (s *shaky) call(method string, do func() error) error {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[method]++
	hook := s.hook[fmt.Sprint(method, s.calls[method])]
	err := next(s.before, method)
	s.mu.Unlock()
	if hook != nil {
		hook()
	}
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slow := s.slow[method]; slow != nil {
		delete(s.slow, method)
		slow()
	}
	return next(s.after, method)
}

func (s *shaky) Begin(ctx context.Context, b effect.Begin) (out effect.Seen, err error) {
	err = s.call("Begin", func() (err error) { out, err = s.Store.Begin(ctx, b); return err })
	return out, err
}

func (s *shaky) Adopt(ctx context.Context, a effect.Adopt) (out effect.Seen, err error) {
	err = s.call("Adopt", func() (err error) { out, err = s.Store.Adopt(ctx, a); return err })
	return out, err
}

func (s *shaky) Settle(ctx context.Context, m effect.Settle) (out effect.Settled, err error) {
	err = s.call("Settle", func() (err error) { out, err = s.Store.Settle(ctx, m); return err })
	return out, err
}

func (s *shaky) Complete(ctx context.Context, c effect.Completion) (out bool, err error) {
	err = s.call("Complete", func() (err error) { out, err = s.Store.Complete(ctx, c); return err })
	return out, err
}

func (s *shaky) Release(ctx context.Context, r effect.Release) (out bool, err error) {
	err = s.call("Release", func() (err error) { out, err = s.Store.Release(ctx, r); return err })
	return out, err
}

func (s *shaky) Look(ctx context.Context, l effect.Look) (out effect.Seen, err error) {
	err = s.call("Look", func() (err error) { out, err = s.Store.Look(ctx, l); return err })
	return out, err
}
