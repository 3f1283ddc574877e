package saga_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/saga"
	"github.com/retryproof/retryproof/store/memory"
	"github.com/retryproof/retryproof/worker"
)

// airline keeps one seat: FREE, HELD by a booking that is not final, or SOLD. HELD
// is what other readers see of a saga in the middle, and they do not count on it.
type airline struct {
	seat, heldBy string
	sold         func()
}

func (a *airline) hold(_ context.Context, c saga.Call) ([]byte, error) {
	if a.seat != "FREE" && a.heldBy != c.Key {
		return nil, retryproof.Refused("seat-taken", "the seat is taken", nil)
	}
	a.seat, a.heldBy = "HELD", c.Key
	fmt.Println("  seat", a.seat)
	return nil, nil
}

func (a *airline) release(_ context.Context, c saga.Call) ([]byte, error) {
	if a.heldBy == c.OriginalKey {
		a.seat, a.heldBy = "FREE", ""
	}
	fmt.Println("  seat", a.seat)
	return nil, nil
}

func (a *airline) sell(context.Context, saga.Call) ([]byte, error) {
	a.seat = "SOLD"
	fmt.Println("  seat", a.seat)
	if a.sold != nil {
		a.sold()
	}
	return nil, nil
}

// bank honours keys. It loses its first answer, or declines.
type bank struct {
	charges map[string]int64
	calls   int
	decline bool
}

func (b *bank) charge(_ context.Context, c saga.Call) ([]byte, error) {
	if b.decline {
		fmt.Println("  charge declined")
		return nil, retryproof.Refused("card-declined", "the card was declined", nil)
	}
	b.calls++
	b.charges[c.Key] = 3000
	if b.calls == 1 {
		fmt.Println("  charge: no answer")
		return nil, errors.New("timeout")
	}
	fmt.Println("  charge answered")
	return nil, nil
}

func (b *bank) refund(_ context.Context, c saga.Call) ([]byte, error) {
	delete(b.charges, c.OriginalKey)
	fmt.Println("  nothing is charged, nor will be, with", c.OriginalKey)
	return nil, nil
}

// A booking is a seat and a charge at two companies. A definite refusal of the
// charge releases the seat; a lost answer is asked for again with the same key.
func Example() {
	ctx := context.Background()
	c := clocktest.New(start)
	for _, decline := range []bool{true, false} {
		a, b := &airline{seat: "FREE"}, &bank{charges: map[string]int64{}, decline: decline}
		booking := saga.Definition{Name: "booking", Steps: []saga.Step{
			{Name: "seat", Action: a.hold, Cancel: a.release, CancelName: "release"},
			{Name: "charge", Action: b.charge, Cancel: b.refund, CancelName: "refund"},
			{Name: "ticket", Action: a.sell}, // nothing can refuse it any more
		}}
		runner, err := saga.New(memory.New().Sagas(), saga.Config{Clock: c}, booking)
		if err != nil {
			fmt.Println(err)
			return
		}
		rec, err := runner.Start(ctx, saga.Start{ID: "book_7", Name: "booking", Input: []byte(`{"seat":"12A"}`)})
		for err == nil && !rec.State.Final() {
			fmt.Println(rec.State)
			rec, err = runner.Advance(ctx, "book_7")
			c.Advance(5e9) // worker.Run and RunOnce do this in a program
		}
		fmt.Println(rec.State, "seat", a.seat, "charges", len(b.charges), err)
	}
	// Output:
	// RUNNING
	//   seat HELD
	//   charge declined
	//   nothing is charged, nor will be, with book_7:charge
	//   seat FREE
	// COMPENSATED seat FREE charges 0 <nil>
	// RUNNING
	//   seat HELD
	//   charge: no answer
	// RUNNING
	//   charge answered
	//   seat SOLD
	// COMPLETED seat SOLD charges 1 <nil>
}

// The same in a program: whoever wants a booking records it, a loop does the rest.
func ExampleRunner() {
	ctx, stop := context.WithCancel(context.Background())
	a, b := &airline{seat: "FREE", sold: stop}, &bank{charges: map[string]int64{}, calls: 1}
	store := memory.New()

	booking := saga.Definition{Name: "booking", Steps: []saga.Step{
		{Name: "seat", Action: a.hold, Cancel: a.release},
		{Name: "charge", Action: b.charge, Cancel: b.refund, CancelName: "refund"}, // book_7:charge, book_7:cancel:refund
		{Name: "ticket", Action: a.sell},                                           // HELD becomes SOLD
	}}
	page := func(_ context.Context, alarm saga.Alarm) { // a call stays without an answer: tell a person
		fmt.Println("look at", alarm.Saga.ID, alarm.Cause)
	}
	runner, err := saga.New(store.Sagas(), saga.Config{Alert: page}, booking)
	if err != nil {
		fmt.Println(err)
		return
	}
	id := retryproof.ID("book_7") // from your own record of the booking; no ':' in it
	rec, err := runner.Start(ctx, saga.Start{ID: id, Name: "booking", Input: []byte(`{"seat":"12A"}`)})
	fmt.Println(rec.State, err)
	worker.Run(ctx, worker.Config{}, worker.Loop{Name: "sagas", Step: runner.RunOnce}) // blocks until ctx ends

	last, err := runner.Read(context.Background(), id)
	fmt.Println(last.State, last.State.Final(), err)
	// Output:
	// RUNNING <nil>
	//   seat HELD
	//   charge answered
	//   seat SOLD
	// COMPLETED true <nil>
}
