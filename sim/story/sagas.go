package story

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/saga"
	"github.com/retryproof/retryproof/sim"
)

// recordTakes bounds one record of a saga's log.
const recordTakes = time.Second

// bookingID names the saga after the client's key.
var bookingID = retryproof.Of("book", retryproof.Scope{Endpoint: "bookings", Caller: buyer, Key: keyK1})

// flight is a booking of a seat at an airline and a charge at the processor, as two
// servers run it.
type flight struct {
	st *stage
	// seat is FREE, HELD or SOLD; marks are the airline's own records.
	seat  string
	marks saga.Marks
	// stuck holds the first call for the seat in the network until late_at.
	stuck bool
	// gone says that the airline sells no ticket for the seat.
	gone bool
	told string
}

func newFlight(st *stage) *flight {
	st.names.other("book_7", string(bookingID))
	return &flight{st: st, seat: "FREE", marks: st.store.Marks(), told: "nothing"}
}

// loggedSagas is the log as a process reaches it.
type loggedSagas struct {
	saga.Store
	st *stage
	p  *sim.Process
}

func (l loggedSagas) Start(ctx context.Context, s saga.Start) (saga.Record, error) {
	return sim.Through(ctx, l.st.w, l.p, "store", "saga start", string(s.ID), func() (saga.Record, error) { return l.Store.Start(background, s) })
}

func (l loggedSagas) Lease(ctx context.Context, q saga.Lease) (*saga.Record, error) {
	return sim.Through(ctx, l.st.w, l.p, "store", "saga lease", string(q.ID), func() (*saga.Record, error) { return l.Store.Lease(background, q) })
}

func (l loggedSagas) Save(ctx context.Context, s saga.Save) (bool, error) {
	return sim.Through(ctx, l.st.w, l.p, "store", "saga save", string(s.ID), func() (bool, error) { return l.Store.Save(background, s) })
}

// runner is a process that advances bookings.
func (f *flight) runner(name, tag string) (*sim.Process, *saga.Runner, payments.Deps) {
	st := f.st
	p, d := st.w.Enter(name)
	d = st.script.Deps(st.w, p, d)
	c := saga.Config{CallTimeout: st.p.Deadline, WriteTimeout: recordTakes, Lease: st.p.Deadline + recordTakes, Margin: st.p.Margin,
		MinBackoff: time.Millisecond, Clock: d.Clock, Rand: d.Rand, Observe: func(o saga.Observation) { f.saw(tag, o) }}
	r, err := saga.New(loggedSagas{st.store.Sagas(), st, p}, c, f.definition(d, tag))
	st.note(err)
	return p, r, d
}

// saw notes what the runner saw.
func (f *flight) saw(tag string, o saga.Observation) {
	what := map[string]string{
		saga.SawCalled: "STARTED, before the call", saga.SawDone: "DONE", saga.SawRefused: "REFUSED", saga.SawUnknown: "UNKNOWN",
		saga.SawInterrupted: "was STARTED by a server that is gone", saga.SawTurned: "the saga turns: what was begun is undone, latest first",
		saga.SawCompleted: "COMPLETED", saga.SawCompensated: "COMPENSATED",
	}[o.What]
	if what == "" {
		return
	}
	if o.Step != "" {
		key := bookingID.Sub(o.Step)
		if o.Cancel {
			key = bookingID.Sub("cancel", map[string]string{"seat": "release", "charge": "refund"}[o.Step])
		}
		what = f.st.names.show(key) + " " + what
	}
	f.st.say("saga log", tag, "log", what)
}

// definition is the booking: hold the seat, charge, sell the seat.
func (f *flight) definition(d payments.Deps, tag string) saga.Definition {
	airline, bank := saga.NewParticipant(f.marks, d.Clock), saga.NewParticipant(f.st.store.Marks(), d.Clock)
	seat := saga.Step{Name: "seat", CancelName: "release",
		Action: func(ctx context.Context, c saga.Call) ([]byte, error) { return f.hold(ctx, d, tag, airline, c) },
		Cancel: func(ctx context.Context, c saga.Call) ([]byte, error) { return nil, f.release(ctx, d, tag, airline, c) }}
	if f.stuck {
		seat.MaxTries = 1
	}
	charge := func(ctx context.Context, c saga.Call) func(context.Context) ([]byte, error) {
		return func(context.Context) ([]byte, error) { return f.charge(ctx, d, c) }
	}
	return saga.Definition{Name: "booking", Steps: []saga.Step{seat, {Name: "charge", CancelName: "refund",
		Action: func(ctx context.Context, c saga.Call) ([]byte, error) { return bank.Do(ctx, c, charge(ctx, c)) },
		Cancel: func(ctx context.Context, c saga.Call) ([]byte, error) {
			return nil, bank.Cancel(ctx, c, charge(ctx, c), func(context.Context) ([]byte, error) { return f.refund(ctx, d, c) })
		}},
		{Name: "ticket", Action: func(ctx context.Context, _ saga.Call) ([]byte, error) {
			return f.at(ctx, d, func() ([]byte, error) { return nil, f.sell(tag) })
		}}}}
}

// at makes a call to the airline: there, and back.
func (f *flight) at(ctx context.Context, d payments.Deps, do func() ([]byte, error)) ([]byte, error) {
	if err := d.Clock.Sleep(ctx, f.st.p.Network); err != nil {
		return nil, err
	}
	b, err := do()
	if late := d.Clock.Sleep(ctx, f.st.p.Network); late != nil {
		return nil, late
	}
	return b, err
}

func (f *flight) becomes(tag, seat string) error {
	f.seat = seat
	f.st.say("airline", tag, "seat", "seat 12A is "+seat)
	return nil
}

func (f *flight) sell(tag string) error {
	if f.gone {
		f.st.say("airline", tag, "seat", "the flight is cancelled: no ticket")
		return retryproof.Refused("flight-cancelled", "the flight is cancelled", nil)
	}
	return f.becomes(tag, "SOLD")
}

func (f *flight) hold(ctx context.Context, d payments.Deps, tag string, airline *saga.Participant, c saga.Call) ([]byte, error) {
	hold := func(context.Context) ([]byte, error) { return nil, f.becomes(tag, "HELD") }
	if f.stuck {
		f.stuck = false
		f.st.say("network", tag, "stuck", "the call for the seat is stuck until "+Seconds(f.st.p.LateAt).String())
		p, there := f.st.w.Enter("airline")
		f.st.w.Go(p, f.st.p.LateAt-f.st.w.Now(), func() {
			f.st.say("airline", "late", "arrive", "the late original arrives, key "+f.st.names.show(c.Key))
			_, err := saga.NewParticipant(f.marks, there.Clock).Do(background, c, hold)
			what := "done"
			if err != nil {
				what = "refused, " + string(retryproof.CodeOf(err))
				f.st.say("airline", "late", "mark", "the mark says CANCELLED: "+what+", seat 12A stays "+f.seat)
			}
			f.st.ends = append(f.st.ends, End{"the late original", what})
		})
		return nil, d.Clock.Sleep(ctx, 24*time.Hour*365) // until the call's time is over
	}
	return f.at(ctx, d, func() ([]byte, error) { return airline.Do(background, c, hold) })
}

func (f *flight) release(ctx context.Context, d payments.Deps, tag string, airline *saga.Participant, c saga.Call) error {
	free := func(context.Context) ([]byte, error) { return nil, f.becomes(tag, "FREE") }
	held := func(context.Context) ([]byte, error) { return nil, f.becomes(tag, "HELD") }
	_, err := f.at(ctx, d, func() ([]byte, error) {
		before := f.seat
		err := airline.Cancel(background, c, held, free)
		if before == f.seat {
			f.st.say("airline", tag, "mark", "nothing is held: a mark, CANCELLED, for "+f.st.names.show(c.OriginalKey))
		}
		return nil, err
	})
	return err
}

func (f *flight) charge(ctx context.Context, d payments.Deps, c saga.Call) ([]byte, error) {
	got, err := d.PSP.Charge(ctx, psp.ChargeRequest{Key: c.OriginalKey, Reference: string(c.SagaID), Amount: f.st.p.Amount, Currency: currency, Method: method})
	switch {
	case err != nil:
		return nil, err
	case got.State == psp.Declined:
		return nil, retryproof.Refused("card-declined", "the card was declined", nil)
	}
	return []byte(got.ID), nil
}

func (f *flight) refund(ctx context.Context, d payments.Deps, c saga.Call) ([]byte, error) {
	id, _ := c.Result("charge")
	_, err := d.PSP.Refund(ctx, psp.RefundRequest{Key: c.Key, Reference: string(c.SagaID) + ":refund", ChargeID: string(id), Payment: string(c.SagaID),
		Amount: f.st.p.Amount, Currency: currency})
	return nil, err
}

// book lets the phone send the booking to a server, which starts the saga, or finds
// it, and drives it as far as it goes.
func (f *flight) book(tag, server string) {
	st, sent := f.st, f.st.w.Now()
	st.say("phone", tag, "tap", fmt.Sprintf("sends %s: seat 12A, %s, key K1", tag, dollars(st.p.Amount)))
	p, r, _ := f.runner(server, tag)
	st.w.Go(p, st.p.Network, func() {
		st.say(server, tag, "start", "the saga book_7, named after K1")
		rec, err := r.Start(background, saga.Start{ID: bookingID, Name: "booking", Input: []byte("12A")})
		if err == nil {
			rec, err = r.Advance(background, bookingID)
		}
		st.note(err)
		a := Answer{Request: tag, At: Seconds(sent), BodyState: string(rec.State)}
		a.Status = map[saga.State]int{saga.Completed: 201, saga.Compensated: 409}[rec.State]
		if a.Status == 0 {
			a.Status = 202
		}
		a.Lost = st.w.Now()+st.p.Network > sent+st.p.ClientTimeout
		what := "answers " + tag + ": " + a.told()
		if a.Lost {
			what += "; nobody listens"
		} else {
			f.told = a.told()
		}
		st.answers = append(st.answers, a)
		st.say(server, tag, "answer", what)
	})
}

// ended writes down what stands at the end.
func (f *flight) ended() {
	rec, err := f.st.store.Sagas().Read(background, bookingID)
	f.st.note(err)
	state, log := "none", []string{}
	if rec != nil {
		state = string(rec.State)
		for _, e := range rec.Log {
			log = append(log, f.st.names.show(e.Key)+" "+string(e.State))
		}
	}
	var back []string
	for _, r := range f.st.w.Core().Refunds() {
		back = append(back, fmt.Sprintf("%s (%s) %s at %s", f.st.names.refund(r.ID), f.st.names.show(r.Key), amount(r.Amount), at(r.At)))
	}
	if len(back) > 0 {
		f.st.ends = append(f.st.ends, End{"given back", strings.Join(back, ", ")})
	}
	f.st.ends = append(f.st.ends, End{"the saga", state}, End{"seat 12A", f.seat}, End{"the saga's log", strings.Join(log, ", ")})
}
