package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/store/memory"
)

var (
	start       = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fingerprint = retryproof.FingerprintOf(retryproof.Int("amount", 3000))
	errCut      = errors.New("no answer from the processor")
)

// counter gives every token its own bits and hardly any jitter.
type counter struct{ n uint64 }

func (c *counter) Uint64() uint64 {
	c.n++
	return c.n
}

// bench is a store with effects that nobody knows the outcome of.
type bench struct {
	t      *testing.T
	clock  *clocktest.Clock
	memory *memory.Store
	engine *effect.Engine
	rand   *counter
	due    resolve.Store
	seen   map[string]int
	asked  []time.Duration // since the start
	alerts []int           // Tries at the time
	settle error           // fails the resolver's settlements
}

func newBench(t *testing.T) *bench {
	t.Parallel()
	b := &bench{t: t, clock: clocktest.New(start), memory: memory.New(), rand: &counter{}, seen: map[string]int{}}
	b.due = b.memory.Due()
	engine, err := effect.New(unsettling{b.memory.Effects(), b}, effect.Config{Clock: b.clock, Rand: b.rand, Retries: 1})
	if err != nil {
		t.Fatal(err)
	}
	b.engine = engine
	return b
}

// unsettling fails settlements as the bench says.
type unsettling struct {
	effect.Store
	b *bench
}

func (u unsettling) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	if u.b.settle != nil {
		return effect.Settled{}, u.b.settle
	}
	return u.Store.Settle(ctx, s)
}

func request(n int) effect.Request {
	return effect.Request{Scope: retryproof.Scope{Endpoint: "payments", Caller: "u1", Key: retryproof.Key(fmt.Sprint("K", n))}, Fingerprint: fingerprint}
}

// unknown leaves n effects UNKNOWN and due.
func (b *bench) unknown(n int) {
	b.t.Helper()
	for i := range n {
		_, a, err := b.engine.Begin(context.Background(), request(i))
		if err != nil || a == nil {
			b.t.Fatalf("Begin: %v", err)
		}
		if _, err := a.Unknown(context.Background()); err != nil {
			b.t.Fatal(err)
		}
	}
}

func render(g effect.Guard) effect.Answer {
	return effect.Answer{Body: []byte("final " + string(g.State))}
}

func (b *bench) resolver(ask resolve.Ask, c resolve.Config) *resolve.Resolver {
	b.t.Helper()
	c.Clock, c.Rand = b.clock, b.rand
	c.Observe = func(what string, g effect.Guard) {
		if g.ID == "" {
			b.t.Errorf("%s was told of no effect", what)
		}
		b.seen[what]++
	}
	c.Alert = func(_ context.Context, g effect.Guard, cause error) {
		if cause == nil {
			b.t.Error("an alert without a cause")
		}
		b.alerts = append(b.alerts, g.Tries)
	}
	r, err := resolve.New(b.engine, b.due, func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
		b.asked = append(b.asked, b.clock.Now().Sub(start))
		return ask(ctx, g)
	}, render, c)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) run(r *resolve.Resolver, want int) {
	b.t.Helper()
	if got, err := r.RunOnce(context.Background()); got != want || err != nil {
		b.t.Errorf("RunOnce: got %d, %v, want %d", got, err, want)
	}
}

// guard reads the first effect and its claim.
func (b *bench) guard() (effect.Guard, *effect.Claim) {
	b.t.Helper()
	r := request(0)
	seen, err := b.memory.Effects().Look(context.Background(), effect.Look{Scope: r.Scope, GuardID: retryproof.Of("effect", r.Scope), Now: b.clock.Now()})
	if err != nil || seen.Guard == nil {
		b.t.Fatalf("Look: %v, %v", seen, err)
	}
	return *seen.Guard, seen.Claim
}

func (b *bench) wantState(want effect.State) {
	b.t.Helper()
	if g, _ := b.guard(); g.State != want {
		b.t.Errorf("got %s, want %s", g.State, want)
	}
}

func (b *bench) wantEvents(want int64) {
	b.t.Helper()
	if got, err := b.memory.Outbox().Stats(context.Background()); got.Waiting != want || err != nil {
		b.t.Errorf("got %d events, %v, want %d", got.Waiting, err, want)
	}
}

// charged is the processor's answer.
func charged(_ context.Context, g effect.Guard) (effect.Finish, error) {
	return effect.Finish{State: effect.Succeeded, Events: []retryproof.Event{{ID: g.ID.Sub("SUCCEEDED"), Group: "m1", At: start}}}, nil
}

func noAnswer(context.Context, effect.Guard) (effect.Finish, error) { return effect.Finish{}, errCut }

func TestAnAnswerSettlesTheEffectAndRewritesTheClaim(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	b.clock.Advance(11 * time.Second)
	b.run(b.resolver(charged, resolve.Config{}), 1)
	g, claim := b.guard()
	if g.State != effect.Succeeded || g.Owner != "" || string(claim.Answer.Body) != "final SUCCEEDED" {
		t.Errorf("got %s, owner %q, claim %+v, want it settled and rewritten", g.State, g.Owner, claim)
	}
	b.wantEvents(1)
	if d, _, err := b.engine.Begin(context.Background(), request(0)); err != nil || d.Verdict != effect.Replay || string(d.Answer.Body) != "final SUCCEEDED" {
		t.Errorf("a repeat: got %+v, %v, want the final answer", d, err)
	}
	b.run(b.resolver(charged, resolve.Config{}), 0)
	if len(b.asked) != 1 || b.seen["settled"] != 1 {
		t.Errorf("got asked at %v and %v, want once", b.asked, b.seen)
	}
}

func TestADefiniteDeclineFails(t *testing.T) { // case 22
	b := newBench(t)
	b.unknown(1)
	b.run(b.resolver(func(context.Context, effect.Guard) (effect.Finish, error) {
		return effect.Finish{State: effect.Failed, Result: []byte("card_declined")}, nil
	}, resolve.Config{}), 1)
	g, claim := b.guard()
	if g.State != effect.Failed || string(g.Result) != "card_declined" || string(claim.Answer.Body) != "final FAILED" {
		t.Errorf("got %+v and %+v, want the failure in both", g, claim)
	}
}

// case 22
func TestItNeverGuesses(t *testing.T) {
	notDone := retryproof.Refused(retryproof.CodeNotFound, "no such charge", nil)
	for name, answer := range map[string]func() (effect.Finish, error){
		"error":              func() (effect.Finish, error) { return effect.Finish{}, errCut },
		"error with a state": func() (effect.Finish, error) { return effect.Finish{State: effect.Failed}, errCut },
		"not done":           func() (effect.Finish, error) { return effect.Finish{}, notDone },
		"zero":               func() (effect.Finish, error) { return effect.Finish{}, nil },
		"still unknown":      func() (effect.Finish, error) { return effect.Finish{State: effect.Unknown}, nil },
		"pending":            func() (effect.Finish, error) { return effect.Finish{State: effect.Pending}, nil },
		"void":               func() (effect.Finish, error) { return effect.Finish{State: effect.Void}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.unknown(1)
			r := b.resolver(func(context.Context, effect.Guard) (effect.Finish, error) { return answer() }, resolve.Config{})
			for range 2000 { // more than a day
				b.run(r, 0)
				b.clock.Advance(time.Minute)
			}
			b.wantState(effect.Unknown)
			if len(b.asked) < 100 || b.seen["still_unknown"] != len(b.asked) {
				t.Errorf("got %d questions and %v, want it to go on asking", len(b.asked), b.seen)
			}
			if !slices.Equal(b.alerts, []int{10}) {
				t.Errorf("got alerts at tries %v, want one at 10", b.alerts)
			}
			b.wantEvents(0)
			b.clock.Advance(time.Hour)
			b.run(b.resolver(charged, resolve.Config{}), 1)
			b.wantState(effect.Succeeded)
			b.wantEvents(1)
		})
	}
}

func TestBackoffDoublesToItsBound(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	r := b.resolver(noAnswer, resolve.Config{MinBackoff: 2 * time.Second, MaxBackoff: 20 * time.Second})
	for range 600 {
		b.run(r, 0)
		b.clock.Advance(100 * time.Millisecond)
	}
	var gaps []time.Duration
	for i := 1; i < len(b.asked); i++ {
		gaps = append(gaps, (b.asked[i] - b.asked[i-1]).Round(time.Second)) // half of the backoff
	}
	if want := []time.Duration{1, 2, 4, 8, 10, 10, 10, 10}; len(gaps) < 7 || !slices.Equal(gaps[:7], scale(want[:7], time.Second)) {
		t.Errorf("got %v, want %v s", gaps, want)
	}
}

func scale(d []time.Duration, by time.Duration) []time.Duration {
	out := slices.Clone(d)
	for i := range out {
		out[i] *= by
	}
	return out
}

func TestQuestionsKeepToTheRate(t *testing.T) {
	b := newBench(t)
	b.unknown(30)
	r := b.resolver(charged, resolve.Config{Rate: 4, Batch: 20})
	b.run(r, 20)
	b.run(r, 0) // the rate has no question left at this time
	b.clock.Advance(100 * time.Millisecond)
	b.run(r, 0)
	b.clock.Advance(150 * time.Millisecond)
	b.run(r, 10)
	for i, at := range b.asked {
		if want := time.Duration(i) * 250 * time.Millisecond; at != want {
			t.Errorf("question %d: got %v, want %v", i, at, want)
		}
	}
}

func TestTheEndStopsTheQuestions(t *testing.T) {
	b := newBench(t)
	b.unknown(5)
	ctx, stop := context.WithCancel(context.Background())
	r := b.resolver(func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
		stop()
		return charged(ctx, g)
	}, resolve.Config{})
	if n, err := r.RunOnce(ctx); n != 1 || err != nil {
		t.Errorf("got %d, %v, want the one in hand settled", n, err)
	}
	ctx, cancel := b.clock.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	again := b.resolver(charged, resolve.Config{})
	if n, err := again.RunOnce(ctx); n != 2 || err != nil { // at 0 and 0.2
		t.Errorf("got %d, %v, want 2 before the deadline", n, err)
	}
}

// sameList lets somebody else act between a resolver's list and its first lease.
type sameList struct {
	resolve.Store
	between func()
}

func (s *sameList) Due(ctx context.Context, d resolve.Due) ([]effect.Guard, error) {
	out, err := s.Store.Due(ctx, d)
	if between := s.between; between != nil {
		s.between = nil
		between()
	}
	return out, err
}

// case 19
func TestTwoResolversWithOneListSettleOnce(t *testing.T) {
	b := newBench(t)
	b.unknown(3)
	faster := b.resolver(charged, resolve.Config{})
	b.due = &sameList{b.due, func() { b.run(faster, 3) }}
	b.run(b.resolver(charged, resolve.Config{}), 0)
	if len(b.asked) != 3 || b.seen["settled"] != 3 || b.seen["overtaken"] != 3 {
		t.Errorf("got %d questions and %v, want 3 settled and 3 overtaken", len(b.asked), b.seen)
	}
	b.wantEvents(3)
}

// case 19
func TestAResolverThatOutlivesItsLeaseEmitsNothing(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	successor := b.resolver(charged, resolve.Config{})
	slow := b.resolver(func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
		b.clock.Advance(16*time.Second + time.Microsecond) // lease and margin
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Error("the question is not bounded by the lease")
		}
		b.run(successor, 1)
		return effect.Finish{State: effect.Failed, Events: []retryproof.Event{{ID: "late", Group: "m1"}}}, nil
	}, resolve.Config{})
	b.run(slow, 0)
	b.wantState(effect.Succeeded)
	b.wantEvents(1)
	if b.seen["settled"] != 1 || b.seen["overtaken"] != 1 {
		t.Errorf("got %v, want 1 settled and 1 overtaken", b.seen)
	}
}

// case 19
func TestAResolverThatLostItsLeaseSettlesByEvidenceOnly(t *testing.T) {
	for name, c := range map[string]struct {
		ask     resolve.Ask
		settled int
		state   effect.State
		owner   string
	}{
		"an answer counts":   {charged, 1, effect.Succeeded, ""},
		"no answer does not": {noAnswer, 0, effect.Unknown, "another"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.unknown(1)
			slow := b.resolver(func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
				b.clock.Advance(16*time.Second + time.Microsecond)
				if _, mine, err := b.engine.Lease(context.Background(), g, "another", time.Minute); !mine || err != nil {
					t.Errorf("Lease: got %v, %v", mine, err)
				}
				return c.ask(ctx, g)
			}, resolve.Config{})
			b.run(slow, c.settled)
			b.wantState(c.state)
			b.wantEvents(int64(c.settled))
			if g, _ := b.guard(); g.Owner != c.owner {
				t.Errorf("owner: got %q, want %q", g.Owner, c.owner)
			}
		})
	}
}

// What the store refuses for good is asked again with growing pauses, and a person is
// told like of any other outcome that is not known.
func TestAnAnswerThatCanNeverBeRecordedIsTold(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	r := b.resolver(func(context.Context, effect.Guard) (effect.Finish, error) {
		return effect.Finish{State: effect.Succeeded, Result: make([]byte, effect.MaxResultBytes+1)}, nil
	}, resolve.Config{AlertAfter: 3})
	for range 600 {
		if _, err := r.RunOnce(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.clock.Advance(time.Second)
	}
	b.wantState(effect.Unknown)
	if len(b.alerts) != 1 || len(b.asked) > 10 {
		t.Errorf("got alerts %v after %d questions, want 1 alert and at most 10 questions in ten minutes", b.alerts, len(b.asked))
	}
}

func TestAWebhookThatIsFasterWins(t *testing.T) { // story W
	b := newBench(t)
	b.unknown(1)
	r := b.resolver(func(ctx context.Context, g effect.Guard) (effect.Finish, error) {
		out, err := b.engine.Settle(ctx, effect.Settle{ID: g.ID, From: []effect.State{effect.Pending, effect.Unknown}, To: effect.Succeeded, By: "webhook", Now: b.clock.Now(),
			Events: []retryproof.Event{{ID: g.ID.Sub("SUCCEEDED"), Group: "m1"}}})
		if err != nil || !out.Moved {
			t.Errorf("webhook: got %+v, %v", out, err)
		}
		return charged(ctx, g)
	}, resolve.Config{})
	b.run(r, 0)
	g, claim := b.guard()
	if g.State != effect.Succeeded || g.SettledBy != "webhook" || claim.Answer != nil {
		t.Errorf("got %+v and %+v, want the webhook's settlement and a pointer that renders it", g, claim)
	}
	b.wantEvents(1)
	if b.seen["overtaken"] != 1 || b.seen["settled"] != 0 {
		t.Errorf("got %v, want overtaken", b.seen)
	}
	b.clock.Advance(time.Minute)
	b.run(r, 0)
	if len(b.asked) != 1 {
		t.Errorf("asked %d times about a settled effect", len(b.asked))
	}
}

func TestASweepSettlesWhatItsCallerLeftPending(t *testing.T) { // 3b
	for _, unknownOnly := range []bool{false, true} {
		t.Run(fmt.Sprint(unknownOnly), func(t *testing.T) {
			b := newBench(t)
			if _, a, err := b.engine.Begin(context.Background(), request(0)); err != nil || a == nil {
				t.Fatal(err)
			}
			r := b.resolver(charged, resolve.Config{UnknownOnly: unknownOnly})
			b.clock.Advance(6 * time.Second) // lease + margin
			b.run(r, 0)
			b.clock.Advance(time.Microsecond)
			if unknownOnly {
				b.run(r, 0)
				b.wantState(effect.Pending)
				return
			}
			b.run(r, 1)
			_, claim := b.guard()
			b.wantState(effect.Succeeded)
			if claim.Answer == nil || string(claim.Answer.Body) != "final SUCCEEDED" {
				t.Errorf("got %+v, want the dead owner's claim rewritten", claim)
			}
		})
	}
}

func TestAnAnswerThatCannotBeRecordedIsAskedForAgain(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	r := b.resolver(charged, resolve.Config{})
	b.settle = errCut
	if n, err := r.RunOnce(context.Background()); n != 0 || !errors.Is(err, errCut) {
		t.Errorf("got %d, %v, want the failure", n, err)
	}
	b.wantState(effect.Unknown)
	b.settle = nil
	b.clock.Advance(20 * time.Second) // the lease ends
	b.run(r, 1)
	b.wantEvents(1)
}

func TestAStoreThatIsAwayIsAnError(t *testing.T) {
	b := newBench(t)
	b.unknown(1)
	ctx, stop := context.WithCancel(context.Background())
	r := b.resolver(charged, resolve.Config{})
	stop()
	if n, err := r.RunOnce(ctx); n != 0 || retryproof.CodeOf(err) != retryproof.CodeUnavailable {
		t.Errorf("listing: got %d, %v, want unavailable", n, err)
	}
	if len(b.asked) != 0 {
		t.Error("asked without a lease")
	}
}

func TestConfigIsCheckedWithItsFormulas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config resolve.Config
		want   string
	}{
		{resolve.Config{}, ""},
		{resolve.Config{MinBackoff: time.Second, MaxBackoff: time.Second}, ""},
		{resolve.Config{Batch: -1}, "Batch -1"},
		{resolve.Config{Rate: -0.5}, "Rate -0.5"},
		{resolve.Config{AlertAfter: -1}, "AlertAfter -1"},
		{resolve.Config{Rate: 8.3}, ""},
		{resolve.Config{Rate: 8.4}, "3 × Rate < RemoteLimit fails: 3 × 8.4 ≥ 25 requests a second"},
		{resolve.Config{RemoteLimit: 15}, "3 × Rate < RemoteLimit fails: 3 × 5 ≥ 15"},
		{resolve.Config{Rate: 33, RemoteLimit: 100}, ""},
		{resolve.Config{Lease: -1}, "0 ≤ Lease -1ns"},
		{resolve.Config{MinBackoff: time.Hour}, "0 ≤ MinBackoff ≤ MaxBackoff fails: 1h0m0s, 15m0s"},
	} {
		err := c.config.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.config, err, c.want)
		}
		if _, got := resolve.New(nil, nil, nil, nil, c.config); (got == nil) != (err == nil) {
			t.Errorf("New: got %v, want %v", got, err)
		}
	}
}
