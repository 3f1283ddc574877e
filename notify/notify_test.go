package notify_test

import (
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
}

func (p *provider) Send(_ context.Context, n push.Notification) error {
	if p.err == nil {
		p.took = append(p.took, n)
	}
	return p.err
}

// crashing ends before or after what it is told to do.
type crashing struct {
	notify.Store
	readErr, markErr error
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
	b := &bench{store: &crashing{Store: m.Notify()}, provider: &provider{}, clock: clocktest.New(start.Add(time.Minute))}
	b.notifier = notify.New(b.store, "push", b.provider, notify.Config{Clock: b.clock, Observe: func(what string, _ notify.Intent) { b.seen = append(b.seen, what) }})
	apply := inbox.Apply{Key: retryproof.InboxKey{Consumer: "w", Source: "q", EventID: "ev_7"}, Now: start,
		Intents: []notify.Intent{{Key: key, ReplaceID: "pay_7", To: "u1", Title: "Paid", Body: "$30.00"}}}
	if _, err := m.Inbox().Apply(context.Background(), apply); err != nil {
		t.Fatal(err)
	}
	return b
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

func TestAnIntentStaysPendingUntilTheProviderTakesIt(t *testing.T) {
	b := newBench(t)
	for _, cause := range []error{errCut, retryproof.Refused(retryproof.CodeTooMany, "slow down", nil)} {
		b.provider.err = cause
		err := b.notifier.Finish(context.Background(), "ev_7")
		if !errors.Is(err, cause) || retryproof.OutcomeOf(err) != retryproof.OutcomeOf(cause) || retryproof.CodeOf(err) != retryproof.CodeOf(cause) {
			t.Errorf("got %v, want %v with its outcome", err, cause)
		}
		b.want(t, notify.Pending, 0)
	}
	b.provider.err = nil
	if err := b.notifier.Finish(context.Background(), "ev_7"); err != nil {
		t.Fatal(err)
	}
	b.want(t, notify.Sent, 1)
	if want := []string{"failed", "failed", "sent"}; !slices.Equal(b.seen, want) {
		t.Errorf("got %v, want %v", b.seen, want)
	}
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
