package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
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
	// Done is the state of the definite answer: "SUCCEEDED", "FAILED" or "VOID"; empty
	// while there is none. PaymentID is the payment of the last answer.
	Done, PaymentID string
	// Renewed counts the keys that were left behind; Left are those that are void.
	Renewed int
	Left    []string
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
	// Asks makes the buyer ask what became of a key that has no definite answer when
	// patience ends, AsksBetween between two tries, AsksFirst before the first.
	Asks, AsksBetween, AsksFirst bool
	// Trusts makes the buyer trust that what has not begun by Trust after the send never
	// will: who finds nothing then pays again. Right where formula 2 holds.
	Trusts bool
	// Refunds is what the buyer wants back of each payment.
	Refunds Refunding
	// Question is how the buyer asks; the rule is POST /payments/resolve.
	Question func(b *Buyer, i *Intent, key string) Message
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
		b.refund(w, p, i)
	}
	open := func(i *Intent) bool { return i.Done == "" || b.ComesBack }
	if b.LateReturn > 0 && slices.ContainsFunc(b.Intents, open) {
		_ = w.wait(nil, b.LateReturn)
		for _, i := range b.Intents {
			if open(i) {
				b.comeBack(w, p, i)
			}
		}
	}
	for _, i := range b.Intents {
		i.GaveUp = i.Done == ""
	}
	done()
}

// comeBack is one late return: an app restored from a backup sends keys that were left
// behind, too.
func (b *Buyer) comeBack(w *World, p *Process, i *Intent) {
	if b.ComesBack {
		for _, key := range i.Left {
			m := Message{Label: i.Name, Path: "/payments", Token: b.Name, Key: key, Body: b.BodyOf(i, b.Patience)}
			_, _ = w.Exchange(p, m, b.Timeout)
		}
	}
	if b.Asks && w.rand.IntN(2) == 0 {
		b.ask(w, p, i, b.Patience)
	}
	if i.Done == "" || b.ComesBack {
		b.try(w, p, i, b.Patience)
	}
}

// pay tries until there is a definite answer or patience ends; a key that is void
// makes room for another, with new patience.
func (b *Buyer) pay(w *World, p *Process, i *Intent) {
	if b.AsksFirst {
		b.ask(w, p, i, 0)
	}
	renewed := i.Renewed
	for try, left := 0, b.Patience; i.Done == "" && left > 0; try, left = try+1, left-1 {
		if try > 0 {
			_ = w.wait(nil, w.upTo(b.Pause)+100*time.Millisecond)
		}
		sent := w.now
		b.try(w, p, i, try)
		switch {
		case i.Done != "" || i.Renewed > renewed:
		case b.Trusts:
			_ = w.wait(nil, sent+trustAfter-w.now)
			b.look(w, p, i, try)
		case b.AsksBetween && w.rand.IntN(2) == 0, b.Asks && left == 1:
			b.ask(w, p, i, try)
		}
		if i.Renewed > renewed {
			renewed, left = i.Renewed, b.Patience
		}
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
		i.PaymentID = paymentIn(r)
	case 402:
		i.Done = "FAILED"
	case 409:
		if says(r, retryproof.CodeVoid) {
			i.leaveVoid()
		}
	case 422:
		i.Done = "REFUSED"
	}
}

// leaveVoid takes another key, since the one at hand is void.
func (i *Intent) leaveVoid() {
	i.Left = append(i.Left, i.Key)
	i.renew()
}

// renew takes another key. A buyer who has left many gives up.
func (i *Intent) renew() {
	if i.Renewed++; i.Renewed > 3 {
		i.Done = "VOID"
		return
	}
	i.Key += "-new"
}

// newBuyer returns a buyer with n intents.
func newBuyer(w *World, name string, n int, h Habits) *Buyer {
	b := &Buyer{Name: name, Timeout: 10 * time.Second, Patience: 4 + w.rand.IntN(8), Question: resolveKey,
		KeyOf:  func(i *Intent, _ int) string { return i.Key },
		BodyOf: func(i *Intent, try int) []byte { return body(i, i.amount(try)) }}
	if w.rand.Float64() < h.Late {
		b.LateReturn = 70 * time.Minute // after the key record has expired
	}
	if b.Pause = h.Pause; b.Pause == 0 {
		b.Pause = 2 * time.Second
	}
	b.ComesBack, b.PaysAgain = w.rand.Float64() < h.ComeBack, w.rand.Float64() < h.PayAgain
	if w.rand.Float64() < h.Hurry {
		b.Timeout = time.Second + w.upTo(2*time.Second)
	}
	b.Asks, b.AsksBetween, b.AsksFirst = w.rand.Float64() < h.Ask, w.rand.Float64() < h.Ask/2, w.rand.Float64() < h.AskFirst
	if h.Trust {
		b.Timeout, b.Trusts = 10*time.Second, true
	}
	if w.rand.Float64() < h.Refund {
		if b.Refunds = h.Refunding; b.Refunds == 0 {
			b.Refunds = Refunding(1 + w.rand.IntN(4))
		}
	}
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
