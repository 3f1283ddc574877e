package saga_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/saga"
)

// fault is what happens at one point: a call of the store, of a participant's marks,
// of the outside, or of a person.
type fault int

const (
	none        fault = iota
	crashBefore       // the process ends, nothing was done
	crashAfter        // the process ends, it was done
	lostBefore        // an error that says nothing, nothing was done
	lostAfter         // an error that says nothing, it was done
	lastFault
)

// faults counts points and strikes at those of its plan.
type faults struct {
	n    int
	plan map[int]fault
}

func through[T any](f *faults, do func() (T, error)) (T, error) {
	var zero T
	f.n++
	planned := f.plan[f.n]
	if planned == crashBefore {
		die()
	}
	if planned == lostBefore {
		return zero, errors.New("no answer")
	}
	v, err := do()
	if planned == crashAfter {
		die()
	}
	if planned == lostAfter {
		return zero, errors.New("no answer")
	}
	return v, err
}

// faultyStore is a store behind faults.
type faultyStore struct {
	saga.Store
	f *faults
}

func (s faultyStore) Start(ctx context.Context, a saga.Start) (saga.Record, error) {
	return through(s.f, func() (saga.Record, error) { return s.Store.Start(ctx, a) })
}

func (s faultyStore) Lease(ctx context.Context, a saga.Lease) (*saga.Record, error) {
	return through(s.f, func() (*saga.Record, error) { return s.Store.Lease(ctx, a) })
}

func (s faultyStore) Save(ctx context.Context, a saga.Save) (bool, error) {
	return through(s.f, func() (bool, error) { return s.Store.Save(ctx, a) })
}

func (s faultyStore) Read(ctx context.Context, id retryproof.ID) (*saga.Record, error) {
	return through(s.f, func() (*saga.Record, error) { return s.Store.Read(ctx, id) })
}

// faultyMarks are marks behind faults.
type faultyMarks struct {
	saga.Marks
	f *faults
}

type marked struct {
	m     saga.Mark
	first bool
}

func (s faultyMarks) Mark(ctx context.Context, a saga.Mark) (saga.Mark, bool, error) {
	out, err := through(s.f, func() (marked, error) {
		m, first, err := s.Marks.Mark(ctx, a)
		return marked{m, first}, err
	})
	return out.m, out.first, err
}

func (s faultyMarks) Move(ctx context.Context, a saga.MarkMove) (bool, error) {
	return through(s.f, func() (bool, error) { return s.Marks.Move(ctx, a) })
}

// scenario is a saga with the end that it must come to.
type scenario struct {
	name    string
	plan    func(l *lab, s *shop, f *faults) saga.Definition
	state   saga.State // "" for either
	charged int64
	held    int64
}

func behind(f *faults, fn saga.Func) saga.Func {
	return func(ctx context.Context, c saga.Call) ([]byte, error) {
		return through(f, func() ([]byte, error) { return fn(ctx, c) })
	}
}

// plain puts every call of the shop behind faults.
func plain(s *shop, f *faults) saga.Definition {
	d := s.definition()
	for i := range d.Steps {
		d.Steps[i].Action, d.Steps[i].Cancel = behind(f, d.Steps[i].Action), behind(f, d.Steps[i].Cancel)
	}
	return d
}

// marking charges through a participant's marks, whose calls are points too.
func marking(l *lab, s *shop, f *faults) saga.Definition {
	d := plain(s, f)
	p := saga.NewParticipant(faultyMarks{l.memory.Marks(), f}, l.clock)
	call := func(key string, amount int64) func(context.Context) ([]byte, error) {
		return func(context.Context) ([]byte, error) {
			return through(f, func() ([]byte, error) { return []byte(s.psp.do(key, "charged", amount)), nil })
		}
	}
	d.Steps[1].Action = func(ctx context.Context, c saga.Call) ([]byte, error) { return p.Do(ctx, c, call(c.Key, 3000)) }
	d.Steps[1].Cancel = func(ctx context.Context, c saga.Call) ([]byte, error) {
		return nil, p.Cancel(ctx, c, call(c.OriginalKey, 3000), call(c.Key, -3000))
	}
	return d
}

func scenarios() []scenario {
	return []scenario{
		{"all is well", func(_ *lab, s *shop, f *faults) saga.Definition { return plain(s, f) }, saga.Completed, 3000, 1},
		{"the charge is refused", func(_ *lab, s *shop, f *faults) saga.Definition {
			s.before = func(c saga.Call) error {
				if c.Step == "charge" {
					return declined()
				}
				return nil
			}
			return plain(s, f)
		}, saga.Compensated, 0, 0},
		{"the step fails after its charge", func(_ *lab, s *shop, f *faults) saga.Definition {
			s.charge = func(saga.Call) error { return declined() }
			return plain(s, f)
		}, saga.Compensated, 0, 0},
		{"marked, and the step after it is refused", func(l *lab, s *shop, f *faults) saga.Definition {
			d := marking(l, s, f)
			d.Steps = append(d.Steps, saga.Step{Name: "ticket", Action: func(context.Context, saga.Call) ([]byte, error) { return nil, declined() }})
			return d
		}, saga.Compensated, 0, 0},
		{"marked, with one try", func(l *lab, s *shop, f *faults) saga.Definition {
			d := marking(l, s, f)
			d.Steps[1].MaxTries = 1
			return d
		}, "", 0, 0},
	}
}

// play runs a scenario to its end under a plan and checks what stands outside. It
// returns how many points there were.
func play(t *testing.T, sc scenario, plan map[int]fault) int {
	t.Helper()
	l, s, f := newLab(t), newShop(), &faults{plan: plan}
	l.store = faultyStore{l.memory.Sagas(), f}
	d := sc.plan(l, s, f)
	for tries := 0; ; tries++ { // whoever lost the answer to Start asks again
		if tries > 5 {
			t.Fatal("the saga does not start")
		}
		if started(l, d) {
			break
		}
	}
	rec := l.settle("o_1", d)
	what := fmt.Sprintf("%s, plan %v", sc.name, plan)
	want, charged, held := sc.state, sc.charged, sc.held
	if want == "" {
		if want = rec.State; want == saga.Completed {
			charged, held = 3000, 1
		}
	}
	if rec.State != want || s.psp.net["charged"] != charged || s.seat.net["held"] != held {
		t.Fatalf("%s: got %s, charged %d, held %d, want %s, %d, %d: %v", what, rec.State, s.psp.net["charged"], s.seat.net["held"], want, charged, held, rec.Log)
	}
	for _, key := range append(s.psp.calls, s.seat.calls...) {
		switch key {
		case "o_1:seat", "o_1:charge", "o_1:cancel:refund", "o_1:cancel:seat":
		default:
			t.Fatalf("%s: got a call with the key %q", what, key)
		}
	}
	for _, e := range rec.Log {
		if rec.State == saga.Compensated && e.Cancel && e.State != saga.Done {
			t.Fatalf("%s: COMPENSATED with %+v", what, e)
		}
	}
	return f.n
}

func started(l *lab, d saga.Definition) (ok bool) {
	died := dies(func() {
		_, err := l.runner(d).Start(l.t.Context(), saga.Start{ID: "o_1", Name: "order", Input: []byte("12A")})
		ok = err == nil
	})
	return ok && !died
}

func TestCrashAndLostAnswerAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			points := play(t, sc, nil)
			if points < 10 {
				t.Fatalf("got %d points, want every call of a saga", points)
			}
			for k := 1; k <= points; k++ {
				for what := crashBefore; what < lastFault; what++ {
					play(t, sc, map[int]fault{k: what})
				}
			}
		})
	}
}

func TestTwoFaultsAtEveryPairOfPoints(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			points := play(t, sc, nil)
			for k := 1; k <= points; k++ {
				for second := k + 1; second <= points+8; second++ {
					for _, what := range []fault{1 + fault(k)%4, 1 + fault(k+2)%4} {
						play(t, sc, map[int]fault{k: what, second: 1 + (what+fault(second))%4})
					}
				}
			}
		})
	}
}

// The original is slower than its lease: another runner turns the saga and
// compensates, and then the original arrives.
func TestLateOriginalMeetsTheMarkOfItsCompensation(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"before the mark", "between the mark and the charge"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			l, psp := newLab(t), newCallee()
			p := saga.NewParticipant(l.memory.Marks(), l.clock)
			var late error
			definition := func(slow func(at string)) saga.Definition {
				return saga.Definition{Name: "order", Steps: []saga.Step{{Name: "charge", CancelName: "refund",
					Action: func(ctx context.Context, c saga.Call) ([]byte, error) {
						ctx = context.WithoutCancel(ctx) // nothing stops it at its deadline
						slow("before the mark")
						result, err := p.Do(ctx, c, func(context.Context) ([]byte, error) {
							slow("between the mark and the charge")
							return []byte(psp.do(c.Key, "charged", 3000)), nil
						})
						late = err
						return result, err
					},
					Cancel: func(ctx context.Context, c saga.Call) ([]byte, error) {
						return nil, p.Cancel(ctx, c,
							func(context.Context) ([]byte, error) { return []byte(psp.do(c.OriginalKey, "charged", 3000)), nil },
							func(context.Context) ([]byte, error) { return []byte(psp.do(c.Key, "charged", -3000)), nil })
					}}}}
			}
			fast := l.runner(definition(func(string) {}))
			r := l.runner(definition(func(at string) {
				if at != where || late != nil {
					return
				}
				l.clock.Advance(time.Minute)
				if _, err := fast.Cancel(t.Context(), "o_1", "the buyer left"); err != nil {
					t.Error(err)
				}
				l.once(fast)
				check(t, "the state before the original arrives", l.read("o_1").State, saga.Compensated)
			}))
			l.start(r, "order", "o_1")
			l.once(r)
			check(t, "what the original is told", retryproof.CodeOf(late), retryproof.CodeVoid)
			check(t, "charged", psp.net["charged"], 0)
			check(t, "the state", l.read("o_1").State, saga.Compensated)
		})
	}
}
