package payments_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/push"
	pushemulator "github.com/retryproof/retryproof/push/emulator"
)

// case 36: the push provider refuses at first. The message is finished, and the loop of
// notifications sends what is due.
func TestANotificationThatFailsIsSentLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.phones.AddFault(pushemulator.Fault{Kind: pushemulator.FaultRefuse}); err != nil {
		t.Fatal(err)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.deliver()
	w.wantBalance(15_000)
	w.wantScreen(0, 0)
	if got := w.queue.Stats(); got.Depth != 0 {
		t.Errorf("got %+v, want an empty queue", got)
	}
	w.notify(0)
	w.clock.Advance(2 * time.Second)
	w.notify(1)
	w.wantScreen(1, 1)
	w.wantBalance(15_000)
	if err := w.system.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := hopsOf(t, w, keyK1)["push provider"]; got.Saw["failed sends"] != 1 || got.Saw["sends"] != 1 || got.State != "SENT" {
		t.Errorf("push provider: got %+v", got)
	}
}

// notify sends what is due.
func (w *world) notify(wantDone int) {
	w.t.Helper()
	if n, err := w.system.NotifyOnce(w.t.Context()); n != wantDone || err != nil {
		w.t.Errorf("notifications: got %d, %v, want %d", n, err, wantDone)
	}
}

// case 36: a failed notification that nobody can write down leaves its message, and the
// redelivery finishes it and credits nothing.
func TestARedeliveryFinishesANotification(t *testing.T) {
	t.Parallel()
	books := &noBooks{}
	w := newWorld(t, func(w *world) { books.Store, w.deps.Store.Notify = w.deps.Store.Notify, books })
	if err := w.phones.AddFault(pushemulator.Fault{Kind: pushemulator.FaultRefuse}); err != nil {
		t.Fatal(err)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	if _, err := w.system.RelayOnce(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.system.WorkOnce(t.Context()); !errors.Is(err, errNoBooks) {
		t.Errorf("got %v, want %v", err, errNoBooks)
	}
	w.wantBalance(15_000)
	w.wantScreen(0, 0)
	w.clock.Advance(time.Second)
	if n, err := w.system.WorkOnce(t.Context()); n != 1 || err != nil {
		t.Errorf("redelivery: got %d, %v", n, err)
	}
	w.wantBalance(15_000)
	w.wantScreen(1, 1)
}

var errNoBooks = errors.New("no answer to a failure")

// noBooks cannot write down that a notification failed.
type noBooks struct{ notify.Store }

func (*noBooks) Fail(context.Context, notify.Failure) (bool, error) { return false, errNoBooks }

// gone is a push provider that knows no u1.
type gone struct{ notify.Sender }

func (g gone) Send(ctx context.Context, n push.Notification) error {
	if n.To == "u1" {
		return retryproof.Refused(retryproof.CodePermanent, "410: u1 has no phone", nil)
	}
	return g.Sender.Send(ctx, n)
}

func TestAPersonWhoIsGoneHoldsUpNobodysCredit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.deps.Push = gone{w.phones} })
	for _, a := range []ask{{key: keyK1, amount: 1000}, {key: keyK2, amount: 2000, token: "t-u2"}} {
		want(t, w.send(a), http.StatusCreated, "")
	}
	w.deliver()
	w.wantBalance(15_000)
	if got := w.queue.Stats(); got.Depth != 0 {
		t.Errorf("got %+v, want an empty queue", got)
	}
	if got := len(w.phones.Screen("u2")); got != 1 {
		t.Errorf("u2: got %d notifications, want 1", got)
	}
	w.clock.Advance(time.Hour)
	w.notify(0)
	w.wantMetric("retryproof_notifications_total what=refused", 1)
	if got := w.log.lines("a notification is not sent any more"); got != 1 {
		t.Errorf("got %d log lines, want 1", got)
	}
	if a := w.audit(); a.IntentsRefused != 1 || a.IntentsSent != 1 || a.IntentsPending != 0 {
		t.Errorf("got %+v, want one refused and one sent", a)
	}
	if got := hopsOf(t, w, keyK1)["push provider"].State; got != "REFUSED" {
		t.Errorf("push provider: got %q, want REFUSED", got)
	}
}

// A caller's name may be longer than a push provider takes.
func TestANotificationThatCannotBeSentHoldsUpNobodysCredit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tokens.caller["t-long"] = strings.Repeat("u", 200)
	for _, a := range []ask{{key: keyK1, amount: 1000, token: "t-long"}, {key: keyK2, amount: 2000}} {
		want(t, w.send(a), http.StatusCreated, "")
	}
	w.deliver()
	w.wantBalance(15_000)
	w.wantScreen(1, 1)
	w.wantMetric("retryproof_notifications_total what=refused", 1)
}

// silent is a push provider that answers nobody.
type silent struct{ w *world }

func (s silent) Send(context.Context, push.Notification) error {
	s.w.clock.Advance(5 * time.Second)
	return errors.New("no answer")
}

func TestAProviderThatDoesNotAnswerSlowsCreditsForAWhileOnly(t *testing.T) {
	t.Parallel()
	const many = 40
	w := newWorld(t, func(w *world) { w.deps.Push = silent{w} })
	for i := range many {
		key, body := fmt.Sprintf("%s%02d", keyK1[:34], i), strings.Replace(order(100), `"42"`, fmt.Sprintf(`"%d"`, i), 1)
		want(t, w.send(ask{key: key, body: body}), http.StatusCreated, "")
	}
	before := w.clock.Now()
	w.deliver()
	w.wantBalance(12_000 + many*100)
	if took := w.clock.Now().Sub(before); took > 20*time.Second {
		t.Errorf("%d credits waited %v for a provider that does not answer, want as much as three tries", many, took)
	}
	w.deps.Push = w.phones
	w.system = w.process(w.deps)
	w.clock.Advance(5 * time.Minute)
	for range many {
		if n, err := w.system.NotifyOnce(t.Context()); n == 0 || err != nil {
			break
		}
	}
	w.wantScreen(many, many)
}

func TestTheLoopOfNotificationsRunsWithTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, l := range w.system.Loops() {
		if l.Name == "notifications" {
			if l.Idle != time.Second {
				t.Errorf("idle: got %v, want 1 s", l.Idle)
			}
			return
		}
	}
	t.Error("there is no loop of notifications")
}

// An intent whose message is gone, as after a queue that lost it, is sent all the same.
func TestANotificationIsSentThoughItsMessageIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deps := w.deps
	deps.Store.Notify = unreadable{deps.Store.Notify}
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	if _, err := w.system.RelayOnce(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.process(deps).WorkOnce(t.Context()); err == nil {
		t.Error("got no error, want the message left")
	}
	w.wantBalance(15_000)
	w.clock.Advance(5*time.Minute - time.Microsecond)
	w.notify(0)
	w.clock.Advance(time.Microsecond)
	w.notify(1)
	w.wantScreen(1, 1)
	w.deliver() // the message was not gone after all
	w.wantScreen(1, 1)
}

type unreadable struct{ notify.Store }

func (unreadable) Intent(context.Context, notify.Key) (*notify.Intent, error) { return nil, errNoBooks }
