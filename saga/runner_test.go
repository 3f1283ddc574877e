package saga_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/saga"
)

// shop is a saga of two calls with outcomes that a test sets.
type shop struct {
	seat, psp *callee
	// charge and refund, when set, decide what the call reports after it arrived.
	charge, refund func(c saga.Call) error
	// before, when set, decides whether the call arrives at all.
	before func(c saga.Call) error
}

func newShop() *shop { return &shop{seat: newCallee(), psp: newCallee()} }

func (s *shop) definition() saga.Definition {
	arrives := func(c saga.Call) error {
		if s.before != nil {
			return s.before(c)
		}
		return nil
	}
	return saga.Definition{Name: "order", Steps: []saga.Step{
		{Name: "seat",
			Action: func(_ context.Context, c saga.Call) ([]byte, error) {
				return []byte(s.seat.do(c.Key, "held", 1)), arrives(c)
			},
			Cancel: func(_ context.Context, c saga.Call) ([]byte, error) {
				if s.seat.outcomes[c.OriginalKey] != "" {
					s.seat.do(c.Key, "held", -1)
				}
				return nil, arrives(c)
			}},
		{Name: "charge", CancelName: "refund",
			Action: func(_ context.Context, c saga.Call) ([]byte, error) {
				if err := arrives(c); err != nil {
					return nil, err
				}
				id := s.psp.do(c.Key, "charged", 3000)
				if s.charge != nil {
					return nil, s.charge(c)
				}
				return []byte(id), nil
			},
			Cancel: func(_ context.Context, c saga.Call) ([]byte, error) {
				if s.refund != nil {
					if err := s.refund(c); err != nil {
						return nil, err
					}
				}
				if s.psp.outcomes[c.OriginalKey] != "" {
					s.psp.do(c.Key, "charged", -3000)
				}
				return nil, nil
			}},
	}}
}

func unknown(string) error { return errors.New("timeout") }

func declined() error { return retryproof.Refused("card-declined", "the card was declined", nil) }

func TestSagaOfOnlyGoodAnswersCompletes(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	r := l.runner(s.definition())
	check(t, "the state at the start", l.start(r, "order", "o_1").State, saga.Running)
	check(t, "a state that is not final", l.read("o_1").State.Final(), false)
	n, err := r.RunOnce(t.Context())
	if n != 1 || err != nil {
		t.Errorf("got %d, %v, want 1 saga", n, err)
	}
	rec := l.read("o_1")
	check(t, "the state", rec.State, saga.Completed)
	check(t, "the log", strings.Join(keysOf(rec), " "), "o_1:seat=DONE o_1:charge=DONE")
	check(t, "the owner", rec.Owner, "")
	if n, err := r.RunOnce(t.Context()); n != 0 || err != nil {
		t.Errorf("after the end: got %d, %v, want nothing to do", n, err)
	}
}

func TestStartIsRepeatableAndAnotherMeaningIsRefused(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	other := s.definition()
	other.Name = "other"
	r := l.runner(s.definition(), other)
	first := l.start(r, "order", "o_1")
	l.settle("o_1", s.definition())
	check(t, "the state that a repeat is told", l.start(r, "order", "o_1").State, saga.Completed)
	check(t, "its time of creation", l.start(r, "order", "o_1").CreatedAt, first.CreatedAt)
	for what, again := range map[string]saga.Start{ // order: each alone
		"another input": {ID: "o_1", Name: "order", Input: []byte("12B")},
		"another kind":  {ID: "o_1", Name: "other", Input: []byte("12A")},
	} {
		_, err := r.Start(t.Context(), again)
		check(t, what, retryproof.CodeOf(err), retryproof.CodeKeyReused)
		check(t, what, retryproof.OutcomeOf(err), retryproof.NotDone)
	}
	for what, bad := range map[string]saga.Start{ // order: each alone
		"no id":             {Name: "order"},
		"an unknown kind":   {ID: "o_2", Name: "?"},
		"a large input":     {ID: "o_2", Name: "order", Input: make([]byte, saga.MaxInputBytes+1)},
		"too long for keys": {ID: retryproof.ID(strings.Repeat("o", 250)), Name: "order"},
	} {
		_, err := r.Start(t.Context(), bad)
		check(t, what, retryproof.CodeOf(err), retryproof.CodeInvalid)
	}
}

func TestRefusedActionTurnsAndEverythingBegunIsUndone(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	s.before = func(c saga.Call) error {
		if c.Step == "charge" {
			return declined()
		}
		return nil
	}
	r := l.runner(s.definition())
	l.start(r, "order", "o_1")
	rec, err := r.Advance(t.Context(), "o_1")
	if err != nil {
		t.Fatal(err)
	}
	check(t, "the state", rec.State, saga.Compensated)
	check(t, "the log", strings.Join(keysOf(rec), " "), "o_1:seat=DONE o_1:charge=REFUSED o_1:cancel:refund=DONE o_1:cancel:seat=DONE")
	check(t, "the reason", rec.Reason, "step charge is REFUSED (card-declined): the card was declined")
	check(t, "held", s.seat.net["held"], 0)
	check(t, "charged", s.psp.net["charged"], 0)
}

func TestUnknownActionIsAskedAgainWithTheSameKey(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	s.charge = func(c saga.Call) error {
		if c.Try <= 5 {
			return unknown("")
		}
		return nil
	}
	l.start(l.runner(s.definition()), "order", "o_1")
	rec := l.settle("o_1", s.definition())
	check(t, "the state", rec.State, saga.Completed)
	check(t, "calls with the key", s.psp.count("o_1:charge"), 6)
	check(t, "charged", s.psp.net["charged"], 3000)
	check(t, "people told", len(l.alarms), 1) // at 3 of 5; 6 is DONE
	check(t, "the tries at that", l.alarms[0].Entry.Tries, 3)
}

func TestPassingRefusalIsTriedAgainNotBeforeItAsked(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	s.before = func(c saga.Call) error {
		if c.Step == "charge" && c.Try == 1 {
			return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeTooMany, RetryAfter: 5 * time.Minute}
		}
		return nil
	}
	r := l.runner(s.definition())
	l.start(r, "order", "o_1")
	check(t, "moved", first(l.once(r)), 1) // the seat
	rec := l.read("o_1")
	check(t, "the next try", rec.NextAt, start.Add(5*time.Minute))
	check(t, "the owner", rec.Owner, "")
	l.clock.Advance(5*time.Minute - time.Microsecond)
	check(t, "moved early", first(l.once(r)), 0)
	l.clock.Advance(time.Microsecond)
	check(t, "moved", first(l.once(r)), 1)
	check(t, "the state", l.read("o_1").State, saga.Completed)
}

func first[A, B any](a A, _ B) A { return a }

func TestLastTryWithoutAnAnswerIsUndoneAsIfItHappened(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	s.charge = func(saga.Call) error { return unknown("") } // charges, every answer is lost
	d := s.definition()
	d.Steps[1].MaxTries = 2
	l.start(l.runner(d), "order", "o_1")
	rec := l.settle("o_1", d)
	check(t, "the state", rec.State, saga.Compensated)
	check(t, "calls", s.psp.count("o_1:charge"), 2)
	check(t, "refunds", s.psp.count("o_1:cancel:refund"), 1)
	check(t, "charged", s.psp.net["charged"], 0)
	check(t, "held", s.seat.net["held"], 0)
}

func TestResultsReachLaterStepsAndCompensations(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	large := bytes.Repeat([]byte("x"), saga.MaxResultBytes+1)
	var got []string
	note := func(c saga.Call, step string) {
		r, ok := c.Result(step)
		got = append(got, string(r))
		if !ok {
			got[len(got)-1] = "-"
		}
	}
	d := saga.Definition{Name: "order", Steps: []saga.Step{
		{Name: "a", Action: func(_ context.Context, c saga.Call) ([]byte, error) { note(c, "a"); return []byte("A"), nil },
			Cancel: func(_ context.Context, c saga.Call) ([]byte, error) { note(c, "a"); return nil, nil }},
		{Name: "b", Action: func(context.Context, saga.Call) ([]byte, error) { return large, nil }},
		{Name: "c", Action: func(_ context.Context, c saga.Call) ([]byte, error) {
			note(c, "a")
			note(c, "b")
			c.Input[0] = '!' // its own copy
			return nil, declined()
		}},
	}}
	l.start(l.runner(d), "order", "o_1")
	rec := l.settle("o_1", d)
	check(t, "what the calls saw", strings.Join(got, " "), "- A - A")
	check(t, "the input", string(rec.Input), "12A")
	b, _ := rec.Entry("b", false)
	check(t, "the large result is dropped", b.ResultDropped, true)
	check(t, "it was observed", slices.Contains(l.seen, "dropped b"), true)
}

func TestOvertakenRunnerChangesNothing(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	d := s.definition()
	other := l.runner(s.definition())
	overtaken := false
	d.Steps[0].Action = func(context.Context, saga.Call) ([]byte, error) {
		if !overtaken { // slower than the lease
			overtaken = true
			l.clock.Advance(31*time.Second + time.Microsecond)
			l.once(other)
		}
		return nil, declined()
	}
	r := l.runner(d)
	l.start(r, "order", "o_1")
	l.once(r)
	rec := l.read("o_1")
	check(t, "the state", rec.State, saga.Completed)
	check(t, "the late owner was fenced", slices.Contains(l.seen, "fenced"), true)
	e, _ := rec.Entry("seat", false)
	check(t, "tries", e.Tries, 2)
}

func TestLeaseIsAliveAtItsEndAndMargin(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	d := s.definition()
	d.Steps[0].Action = func(context.Context, saga.Call) ([]byte, error) { die(); return nil, nil }
	r := l.runner(d)
	l.start(r, "order", "o_1")
	_, crashed := l.once(r)
	check(t, "crashed", crashed, true)
	r = l.runner(s.definition())
	l.clock.Advance(31 * time.Second)
	check(t, "moved at lease + margin", first(l.once(r)), 0)
	l.clock.Advance(time.Microsecond)
	check(t, "moved after it", first(l.once(r)), 1)
	check(t, "the interruption was seen", slices.Contains(l.seen, "interrupted seat"), true)
}

func TestRunnerThatIsToldToStopBeginsNothing(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	ctx, stop := context.WithCancel(t.Context())
	d := s.definition()
	d.Steps[0].Action = func(context.Context, saga.Call) ([]byte, error) { stop(); return nil, nil }
	r := l.runner(d)
	l.start(r, "order", "o_1")
	if n, err := r.RunOnce(ctx); n != 1 || err != nil {
		t.Errorf("got %d, %v, want the record of the call that ran", n, err)
	}
	rec := l.read("o_1")
	check(t, "the log", strings.Join(keysOf(rec), " "), "o_1:seat=DONE")
	check(t, "the owner", rec.Owner, "")
	check(t, "charges", len(s.psp.calls), 0)
	l.once(l.runner(s.definition()))
	check(t, "the state", l.read("o_1").State, saga.Completed)
}

func TestLogThatDoesNotFitIsLeftForAPerson(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	s.charge = func(saga.Call) error { return unknown("") }
	r := l.runner(s.definition())
	l.start(r, "order", "o_1")
	l.once(r)
	renamed := s.definition()
	renamed.Steps[1].Name = "pay"
	l.clock.Advance(time.Minute)
	l.once(l.runner(renamed))
	check(t, "people told", len(l.alarms), 1)
	check(t, "why", l.alarms[0].Cause.Error(), `the log has step "charge", which the definition lacks`)
	check(t, "the owner", l.read("o_1").Owner, "")
	s.charge = nil
	check(t, "the state under the right definition", l.settle("o_1", s.definition()).State, saga.Completed)
}

func TestCancelTurnsARunningSaga(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	s.charge = func(saga.Call) error { return unknown("") }
	r := l.runner(s.definition())
	l.start(r, "order", "o_1")
	l.once(r)
	rec, err := r.Cancel(t.Context(), "o_1", "the buyer left")
	if err != nil {
		t.Fatal(err)
	}
	check(t, "the state", rec.State, saga.Compensating)
	again, err := r.Cancel(t.Context(), "o_1", "again")
	if err != nil || again.Reason != "the buyer left" {
		t.Errorf("got %q, %v, want the first reason", again.Reason, err)
	}
	rec = l.settle("o_1", s.definition())
	check(t, "the state", rec.State, saga.Compensated)
	check(t, "charged", s.psp.net["charged"], 0)
	if _, err := r.Cancel(t.Context(), "o_1", "once more"); err != nil {
		t.Errorf("got %v, want none: it is undone", err)
	}
	_, err = r.Cancel(t.Context(), "o_2", "?")
	check(t, "an unknown saga", retryproof.CodeOf(err), retryproof.CodeNotFound)
}

func TestCancelIsRefusedWhereNothingCouldBeUndone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	answer := unknown("")
	d := saga.Definition{Name: "order", Steps: []saga.Step{
		{Name: "ship", Action: func(context.Context, saga.Call) ([]byte, error) { return nil, answer }},
		{Name: "mail", Action: done},
	}}
	r := l.runner(d)
	l.start(r, "order", "o_1")
	l.once(r)
	_, err := r.Cancel(t.Context(), "o_1", "too late?")
	check(t, "in doubt", retryproof.CodeOf(err), retryproof.CodeInProgress)
	check(t, "the state", l.read("o_1").State, saga.Running)
	check(t, "the owner", l.read("o_1").Owner, "")
	answer = nil
	l.settle("o_1", d)
	_, err = r.Cancel(t.Context(), "o_1", "too late")
	check(t, "completed", retryproof.CodeOf(err), retryproof.CodePermanent)
}

func TestCancelWaitsForTheRunnerThatHasTheSaga(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	d := s.definition()
	r := l.runner(d)
	var err error
	d.Steps[0].Action = func(ctx context.Context, _ saga.Call) ([]byte, error) {
		_, err = r.Cancel(ctx, "o_1", "now")
		return nil, nil
	}
	busy := l.runner(d)
	l.start(busy, "order", "o_1")
	l.once(busy)
	check(t, "while it runs", retryproof.CodeOf(err), retryproof.CodeInProgress)
	check(t, "the state", l.read("o_1").State, saga.Completed)
}

func TestAdvanceRespectsTheBackoff(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	s.charge = func(saga.Call) error { return unknown("") }
	r := l.runner(s.definition())
	l.start(r, "order", "o_1")
	for range 3 {
		if rec, err := r.Advance(t.Context(), "o_1"); err != nil || rec.State != saga.Running || rec.Owner != "" {
			t.Errorf("got %+v, %v, want a running saga that is nobody's", rec, err)
		}
	}
	check(t, "calls", s.psp.count("o_1:charge"), 1)
	_, err := r.Advance(t.Context(), "o_2")
	check(t, "an unknown saga", retryproof.CodeOf(err), retryproof.CodeNotFound)
}

func TestAlertSurvivesACrashAtExactlyThatTryAndComesAgain(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), newShop()
	s.charge = func(c saga.Call) error {
		if c.Try == 3 { // the process ends during the try that would have alerted
			die()
		}
		if c.Try == 13 {
			return nil
		}
		return unknown("")
	}
	l.start(l.runner(s.definition()), "order", "o_1")
	l.settle("o_1", s.definition())
	var at []int
	for _, a := range l.alarms {
		at = append(at, a.Entry.Tries)
	}
	if !slices.Equal(at, []int{3, 6, 12}) {
		t.Errorf("told at tries %v, want 3, 6 and 12", at)
	}
}
