package sim

import (
	"encoding/json"
	"fmt"
	"time"
)

// Intent is one thing a buyer wants: pay this order.
type Intent struct {
	// Buyer and Order name it.
	Buyer, Order, Merchant string
	Amount                 int64
	// Key is the key in the buyer's journal.
	Key string
	// Done is the state of the definite answer: "SUCCEEDED" or "FAILED"; empty
	// while there is none.
	Done string
	// GaveUp says that the buyer stopped asking.
	GaveUp bool
}

// Buyer pays one order after another and repeats what has no definite answer.
type Buyer struct {
	Name    string
	Intents []*Intent
	// Timeout is how long one try waits. Patience is how many tries an intent
	// gets; afterwards the buyer comes back once after LateReturn, if that is set.
	Timeout    time.Duration
	Patience   int
	LateReturn time.Duration
	// KeyOf makes the key of a try; the rule is the intent's own key every time.
	KeyOf func(i *Intent, try int) string
	// BodyOf makes the body of a try.
	BodyOf func(i *Intent, try int) []byte
}

// body is the request of an intent.
func body(i *Intent, amount int64) []byte {
	b, err := json.Marshal(map[string]any{"order_id": i.Order, "amount": amount, "currency": "USD", "payment_method": "pm_1", "merchant_id": i.Merchant})
	if err != nil {
		panic(err) // strings and an integer
	}
	return b
}

// run pays the buyer's intents, one after another.
func (b *Buyer) run(w *World, p *Process, done func()) {
	for _, i := range b.Intents {
		for try := 0; try < b.Patience && i.Done == ""; try++ {
			if try > 0 {
				_ = w.wait(nil, w.upTo(2*time.Second)+100*time.Millisecond)
			}
			b.try(w, p, i, try)
		}
		if i.Done == "" && b.LateReturn > 0 {
			_ = w.wait(nil, b.LateReturn)
			b.try(w, p, i, b.Patience)
		}
		i.GaveUp = i.Done == ""
	}
	done()
}

func (b *Buyer) try(w *World, p *Process, i *Intent, try int) {
	m := Message{Label: i.Order, Path: "/payments", Token: b.Name, Key: b.KeyOf(i, try), Body: b.BodyOf(i, try)}
	r, ok := w.Exchange(p, m, b.Timeout)
	if !ok {
		return
	}
	switch r.Status {
	case 201:
		i.Done = "SUCCEEDED"
	case 402:
		i.Done = "FAILED"
	case 422:
		i.Done = "REFUSED"
	}
}

// newBuyer returns a buyer with n intents.
func newBuyer(w *World, name string, n int) *Buyer {
	b := &Buyer{Name: name, Timeout: 10 * time.Second, Patience: 4 + w.rand.IntN(8),
		KeyOf:  func(i *Intent, _ int) string { return i.Key },
		BodyOf: func(i *Intent, _ int) []byte { return body(i, i.Amount) }}
	if w.rand.IntN(4) == 0 {
		b.LateReturn = 2 * time.Hour
	}
	for k := range n {
		b.Intents = append(b.Intents, &Intent{Buyer: name, Order: fmt.Sprintf("%s-%d", name, k), Merchant: fmt.Sprintf("m%d", 1+w.rand.IntN(2)),
			Amount: 100 + w.rand.Int64N(9000), Key: fmt.Sprintf("key-%d-%s-%d", w.options.Seed, name, k)})
	}
	return b
}
