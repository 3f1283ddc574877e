package saga_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/saga"
)

var errBroken = errors.New("the map is nil")

// A panic of a call is an outcome that is not known: the process lives, the other sagas
// get on, and the call is tried again with its key, backoff and alarm.
func TestAPanicOfACallIsAnOutcomeThatIsNotKnown(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{ // order: each alone
		"a text":                 "the map is nil",
		"an error":               errBroken,
		"an error that says not": retryproof.Refused("card-declined", "the map is nil", nil),
		"a definite error":       &retryproof.Error{Outcome: retryproof.Done, Message: "the map is nil"},
	} {
		for _, cancel := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				panicsUntilTheFourthTry(t, value, cancel)
			})
		}
	}
}

func panicsUntilTheFourthTry(t *testing.T, value any, cancel bool) {
	l, s := newLab(t), newShop()
	broken := func(c saga.Call) error {
		if c.SagaID == "o_1" && c.Try < 4 {
			panic(value)
		}
		return nil
	}
	want, net, key := saga.Completed, int64(3000), "o_1:charge"
	if s.charge = broken; cancel {
		want, net, key = saga.Compensated, 0, "o_1:cancel:refund"
		s.charge, s.refund = func(c saga.Call) error {
			if c.SagaID == "o_1" {
				return declined()
			}
			return nil
		}, broken
	}
	r := l.runner(s.definition())
	l.start(r, "order", "o_1")
	l.start(r, "order", "o_2")
	if _, died := l.once(r); died {
		t.Fatal("the panic went on")
	}
	check(t, "the other saga", l.read("o_2").State, saga.Completed)
	rec := l.read("o_1")
	e, _ := rec.Entry("charge", cancel)
	check(t, "the call", e.State, saga.Unknown)
	check(t, "its code", e.Code, retryproof.CodeUnknown)
	check(t, "the value in its message", strings.Contains(e.Message, "it panicked: the map is nil"), true)
	check(t, "the owner", rec.Owner, "")
	check(t, "the backoff", rec.NextAt.After(l.clock.Now().Add(time.Second-time.Microsecond)), true)
	check(t, "it was seen", slices.ContainsFunc(l.seen, func(s string) bool { return strings.HasPrefix(s, "panicked charge") }), true)
	check(t, "nobody was told at the first try", len(l.alarms), 0)

	rec = l.settle("o_1", s.definition())
	check(t, "the state", rec.State, want)
	e, _ = rec.Entry("charge", cancel)
	check(t, "the key", e.Key, key)
	check(t, "tries", e.Tries, 4)
	check(t, "net", s.psp.net["charged"], net+3000)
	if len(l.alarms) != 1 {
		t.Fatalf("got %d alarms, want one at the third try", len(l.alarms))
	}
	var p *saga.Panic
	if !errors.As(l.alarms[0].Cause, &p) || p.Value != value || !strings.Contains(string(p.Stack), "panicsUntilTheFourthTry") {
		t.Errorf("got the cause %v, want the value and where", l.alarms[0].Cause)
	}
	if err, is := value.(error); is && !errors.Is(l.alarms[0].Cause, err) {
		t.Errorf("got the cause %v, want the error in it", l.alarms[0].Cause)
	}
}

// A goroutine that ends records nothing: the next owner goes on from STARTED.
func TestAGoexitOfACallGoesOn(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	s.charge = func(c saga.Call) error {
		if c.Try == 1 {
			die()
		}
		return nil
	}
	r := l.runner(s.definition())
	l.start(r, "order", "o_1")
	_, died := l.once(r)
	check(t, "it went on", died, true)
	check(t, "the log", strings.Join(keysOf(l.read("o_1")), " "), "o_1:seat=DONE o_1:charge=STARTED")
	check(t, "it was seen as a panic", slices.Contains(l.seen, "panicked charge"), false)
	check(t, "the state", l.settle("o_1", s.definition()).State, saga.Completed)
}

// Two sagas never share a key: the compensation "refund" of pay_7 would be the step
// "refund" of pay_7:cancel.
func TestAnIDThatCouldShareAKeyIsRefused(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	r := l.runner(s.definition(), saga.Definition{Name: "refund", Steps: []saga.Step{{Name: "refund", Action: done}}})
	for _, id := range []retryproof.ID{"pay_7:cancel", ":", "pay_7:", ":pay_7"} {
		_, err := r.Start(t.Context(), saga.Start{ID: id, Name: "refund"})
		check(t, string(id), retryproof.CodeOf(err), retryproof.CodeInvalid)
		check(t, string(id), retryproof.OutcomeOf(err), retryproof.NotDone)
		rec, err := l.store.Read(context.Background(), id)
		if rec != nil || err != nil {
			t.Errorf("%s: got %v, %v, want nothing stored", id, rec, err)
		}
	}
	bad := saga.Definition{Name: "order", Steps: []saga.Step{{Name: "charge", Action: done, Cancel: done, CancelName: "a:b"}}}
	if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), `the compensation of step 1 "charge": a name is printable ASCII`) {
		t.Errorf("got %v, want a ':' refused in a compensation's name", err)
	}
}
