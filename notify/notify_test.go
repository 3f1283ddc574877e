package notify_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/push"
	"github.com/retryproof/retryproof/store/memory"
)

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key    = notify.Key{EventID: "ev_7", Channel: "push"}
	errCut = errors.New("no answer from the provider")
)

// provider is a push provider: what it took, and what it does next.
type provider struct {
	took []push.Notification
	err  error
	// asked counts what it was asked; of refuses one person only.
	asked int
	of    map[string]error
	// during runs in the middle of a send.
	during func()
}

func (p *provider) Send(ctx context.Context, n push.Notification) error {
	p.asked++
	if p.during != nil {
		p.during()
	}
	err := cmp.Or(p.of[n.To], p.err)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		p.took = append(p.took, n)
	}
	return err
}

// crashing ends before or after what it is told to do.
type crashing struct {
	notify.Store
	readErr, markErr, failErr, claimErr error
}

func (c *crashing) Fail(ctx context.Context, f notify.Failure) (bool, error) {
	if c.failErr != nil {
		return false, c.failErr
	}
	return c.Store.Fail(ctx, f)
}

func (c *crashing) Claim(ctx context.Context, q notify.Claim) ([]notify.Intent, error) {
	if c.claimErr != nil {
		return nil, c.claimErr
	}
	return c.Store.Claim(ctx, q)
}

func (c *crashing) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	if c.readErr != nil {
		return nil, c.readErr
	}
	return c.Store.Intent(ctx, k)
}

func (c *crashing) MarkSent(ctx context.Context, k notify.Key, now time.Time) (bool, error) {
	if c.markErr != nil {
		return false, c.markErr
	}
	return c.Store.MarkSent(ctx, k, now)
}

type bench struct {
	memory   *memory.Store
	store    *crashing
	provider *provider
	notifier *notify.Notifier
	clock    *clocktest.Clock
	seen     []string
}

// newBench has the intent of ev_7, PENDING.
func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	m := memory.New()
	b := &bench{memory: m, store: &crashing{Store: m.Notify()}, provider: &provider{}, clock: clocktest.New(start.Add(time.Minute))}
	b.notifier = b.process()
	b.intend(t, "ev_7", "u1")
	return b
}

// process is the notifier of one more process.
func (b *bench) process() *notify.Notifier {
	return notify.New(b.store, "push", b.provider, notify.Config{Clock: b.clock, Rand: half{}, Observe: func(what string, _ notify.Intent) { b.seen = append(b.seen, what) }})
}

// half is randomness in the middle: a wait is three quarters of the whole.
type half struct{}

func (half) Uint64() uint64 { return 1 << 63 }

// intend records an intent at the start.
func (b *bench) intend(t *testing.T, event, to string) {
	t.Helper()
	apply := inbox.Apply{Key: retryproof.InboxKey{Consumer: "w", Source: "q", EventID: event}, Now: start,
		Intents: []notify.Intent{{Key: notify.Key{EventID: event, Channel: "push"}, ReplaceID: "pay_7", To: to, Title: "Paid", Body: "$30.00"}}}
	if _, err := b.memory.Inbox().Apply(context.Background(), apply); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) finish(t *testing.T, event string) {
	t.Helper()
	if err := b.notifier.Finish(context.Background(), event); err != nil {
		t.Errorf("finish %s: got %v, want nil", event, err)
	}
}

func (b *bench) runs(t *testing.T, n *notify.Notifier, want int) {
	t.Helper()
	if got, err := n.RunOnce(context.Background()); got != want || err != nil {
		t.Errorf("got %d, %v, want %d done", got, err, want)
	}
}

func (b *bench) want(t *testing.T, state notify.State, sends int) {
	t.Helper()
	got, err := b.store.Store.Intent(context.Background(), key)
	if err != nil || got.State != state || got.Sends != sends {
		t.Errorf("got %+v, %v, want %s with %d sends", got, err, state, sends)
	}
}

func TestAPendingIntentIsSentOnceAndMarked(t *testing.T) {
	b := newBench(t)
	for range 3 {
		if err := b.notifier.Finish(context.Background(), "ev_7"); err != nil {
			t.Fatal(err)
		}
	}
	want := []push.Notification{{To: "u1", ReplaceID: "pay_7", Title: "Paid", Body: "$30.00"}}
	if !slices.Equal(b.provider.took, want) {
		t.Errorf("got %v, want %v", b.provider.took, want)
	}
	b.want(t, notify.Sent, 1)
	if got, _ := b.store.Intent(context.Background(), key); !got.SentAt.Equal(b.clock.Now()) {
		t.Errorf("sent at %v, want %v", got.SentAt, b.clock.Now())
	}
	if want := []string{"sent", "skipped", "skipped"}; !slices.Equal(b.seen, want) {
		t.Errorf("got %v, want %v", b.seen, want)
	}
}

func TestACrashBetweenSendAndMarkSendsAgainInThePlaceOfTheFirst(t *testing.T) {
	b := newBench(t)
	b.store.markErr = errCut
	if err := b.notifier.Finish(context.Background(), "ev_7"); !errors.Is(err, errCut) {
		t.Errorf("got %v, want %v: the message must come again", err, errCut)
	}
	b.want(t, notify.Pending, 0)
	b.store.markErr = nil
	if err := b.notifier.Finish(context.Background(), "ev_7"); err != nil {
		t.Fatal(err)
	}
	if got := b.provider.took; len(got) != 2 || got[0] != got[1] || got[1].ReplaceID != "pay_7" {
		t.Errorf("got %v, want two alike with one replace id", got)
	}
	b.want(t, notify.Sent, 1)
}

func TestAnEventWithoutAnIntentHasNothingToFinish(t *testing.T) {
	b := newBench(t)
	if err := b.notifier.Finish(context.Background(), "ev_8"); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	other := notify.New(b.store, "mail", b.provider, notify.Config{})
	if err := other.Finish(context.Background(), "ev_7"); err != nil {
		t.Errorf("another channel: got %v, want nil", err)
	}
	if len(b.provider.took) != 0 {
		t.Errorf("got %v, want nothing sent", b.provider.took)
	}
}

func TestNothingIsSentUnlessTheIntentCanBeRead(t *testing.T) {
	b := newBench(t)
	b.store.readErr = errCut
	if err := b.notifier.Finish(context.Background(), "ev_7"); !errors.Is(err, errCut) || len(b.provider.took) != 0 {
		t.Errorf("got %v and %v, want the error and nothing sent", err, b.provider.took)
	}
}
