package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Intent is one thing a buyer wants: pay this order.
type Intent struct {
	// Name is the intent's own; Buyer and Order are what the system is told. Two
	// buyers may pay orders of one name.
	Name, Buyer, Order, Merchant string
	Amount                       int64
	// Edited is the amount that the buyer asks for from the try EditedFrom on,
	// under the same key, by mistake. 0 is none.
	Edited     int64
	EditedFrom int
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
	// Timeout is how long one try waits, Pause at most until the next. Patience is
	// how many tries an intent gets; the buyer comes back once after LateReturn, if
	// that is set.
	Timeout, Pause time.Duration
	Patience       int
	LateReturn     time.Duration
	// ComesBack sends once more after LateReturn although the answer was definite:
	// an app restored from a backup.
	ComesBack bool
	// PaysAgain takes another key after a definite refusal.
	PaysAgain bool
	// KeyOf makes the key of a try; the rule is the intent's own key every time.
	KeyOf func(i *Intent, try int) string
	// BodyOf makes the body of a try.
	BodyOf func(i *Intent, try int) []byte
}

// body is the request of an intent.
func body(i *Intent, amount int64) []byte {
	b, err := json.Marshal(struct {
		Amount   int64  `json:"amount"`
		Currency string `json:"currency"`
		Merchant string `json:"merchant_id"`
		Order    string `json:"order_id"`
		Method   string `json:"payment_method"`
	}{amount, "USD", i.Merchant, i.Order, "pm_1"})
	if err != nil {
		panic(err) // strings and an integer
	}
	return b
}

// amount is what the buyer asks for in a try.
func (i *Intent) amount(try int) int64 {
	if i.Edited != 0 && try >= i.EditedFrom {
		return i.Edited
	}
	return i.Amount
}

// run pays the buyer's intents, one after another, and comes back late for those
// without a definite answer.
func (b *Buyer) run(w *World, p *Process, done func()) {
	for _, i := range b.Intents {
		b.pay(w, p, i)
		if i.Done == "FAILED" && b.PaysAgain {
			i.Done, i.Key = "", i.Key+"-again"
			b.pay(w, p, i)
		}
	}
	open := func(i *Intent) bool { return i.Done == "" || b.ComesBack }
	if b.LateReturn > 0 && slices.ContainsFunc(b.Intents, open) {
		_ = w.wait(nil, b.LateReturn)
		for _, i := range b.Intents {
			if open(i) {
				b.try(w, p, i, b.Patience)
			}
		}
	}
	for _, i := range b.Intents {
		i.GaveUp = i.Done == ""
	}
	done()
}

func (b *Buyer) pay(w *World, p *Process, i *Intent) {
	for try := 0; try < b.Patience && i.Done == ""; try++ {
		if try > 0 {
			_ = w.wait(nil, w.upTo(b.Pause)+100*time.Millisecond)
		}
		b.try(w, p, i, try)
	}
}

func (b *Buyer) try(w *World, p *Process, i *Intent, try int) {
	m := Message{Label: i.Name, Path: "/payments", Token: b.Name, Key: b.KeyOf(i, try), Body: b.BodyOf(i, try)}
	r, ok := w.Exchange(p, m, b.Timeout)
	if !ok || i.Done != "" {
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
func newBuyer(w *World, name string, n int, h Habits) *Buyer {
	b := &Buyer{Name: name, Timeout: 10 * time.Second, Patience: 4 + w.rand.IntN(8),
		KeyOf:  func(i *Intent, _ int) string { return i.Key },
		BodyOf: func(i *Intent, try int) []byte { return body(i, i.amount(try)) }}
	if w.rand.Float64() < h.Late {
		b.LateReturn = 70 * time.Minute // after the key record has expired
	}
	if b.Pause = h.Pause; b.Pause == 0 {
		b.Pause = 2 * time.Second
	}
	b.ComesBack, b.PaysAgain = w.rand.Float64() < h.ComeBack, w.rand.Float64() < h.PayAgain
	for k := range n {
		i := &Intent{Name: fmt.Sprintf("%s-%d", name, k), Buyer: name, Merchant: fmt.Sprintf("m%d", 1+w.rand.IntN(2)),
			Amount: 100 + w.rand.Int64N(9000), Key: fmt.Sprintf("key-%d-%s-%d", w.options.Seed, name, k)}
		i.Order = i.Name
		if h.SameOrders {
			i.Order, i.Merchant, i.Amount = fmt.Sprintf("month-%d", k), "m1", 999
		}
		if w.rand.Float64() < h.Edit {
			i.Edited, i.EditedFrom = i.Amount+500, 1+w.rand.IntN(3)
		}
		b.Intents = append(b.Intents, i)
	}
	return b
}
