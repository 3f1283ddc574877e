package payments_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/payments"
)

func TestNewSaysEverythingThatIsWrongAtOnce(t *testing.T) {
	t.Parallel()
	_, err := payments.New(payments.Deps{}, payments.Config{PSPWindow: time.Hour, PSPWindowMargin: time.Hour, Workers: -1, InboxRetention: time.Hour,
		AnswerTTL: time.Second, AlertAfter: -1})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"Deps.Store", "Deps.Queue", "Deps.PSP", "Deps.Push", "Deps.Authenticate", "PSPWindow > PSPWindowMargin", "Workers -1",
		"InboxRetention", "AnswerTTL", "AlertAfter"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

func TestTheZeroConfigIsValid(t *testing.T) {
	t.Parallel()
	if err := (payments.Config{}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestUnsafeWindowsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]payments.Config{
		"the processor forgets while a request may run": {PSPWindow: time.Hour + 6*time.Second},
		"negative deadline":                             {Deadline: -time.Second},
		"negative margin":                               {Margin: -time.Second},
		"the answer expires before its own lease":       {AnswerTTL: 5 * time.Second},
		"no body at all":                                {MaxBody: -1},
		"negative rate":                                 {ResolveRate: -1},
	} {
		if err := c.Validate(); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if err := (payments.Config{PSPWindow: time.Hour + 6*time.Second + 1}).Validate(); err != nil {
		t.Errorf("just wide enough: got %v", err)
	}
}

func TestDepsHaveDefaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, err := payments.New(payments.Deps{Store: w.deps.Store, Queue: w.queue, PSP: w.psp, Push: w.phones, Authenticate: w.tokens.authenticate}, payments.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, sendTo(t, s, ask{key: keyK1}), 201, "")
}

func TestEveryLoopIsAStepOfTheSystem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.config.Relays, w.config.Workers = 3, 2 })
	want(t, w.send(ask{key: keyK1}), 201, "")
	var names []string
	for _, l := range w.system.Loops() {
		names = append(names, l.Name)
		if l.Idle <= 0 {
			t.Errorf("%s: idle %v, want a pause", l.Name, l.Idle)
		}
	}
	for _, name := range []string{"resolver", "janitor", "hop table", "relay 1", "relay 2", "relay 3", "worker 1", "worker 2"} {
		if !strings.Contains(strings.Join(names, ","), name) {
			t.Errorf("%q is not among %v", name, names)
		}
	}
	for _, l := range w.system.Loops() { // in this order: relays, then workers
		if _, err := l.Step(t.Context()); err != nil {
			t.Errorf("%s: %v", l.Name, err)
		}
	}
	w.wantBalance(15_000)
}

// failingHops cannot keep sightings.
type failingHops struct{ payments.Hops }

func (failingHops) AddSightings(context.Context, []payments.Sighting) error {
	return context.DeadlineExceeded
}

// The hop table explains and guards nothing: losing it harms no payment.
func TestALostHopTableHarmsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.deps.Store.Hops = failingHops{w.deps.Store.Hops} })
	want(t, w.send(ask{key: keyK1}), 201, "")
	if err := w.system.Flush(t.Context()); err == nil {
		t.Error("flush: got no error")
	}
	want(t, w.get("/payments/"+string(idOf("u1", keyK1))+"/hops"), 200, "")
	w.deliver()
	w.wantBalance(15_000)
}
