package sim

import (
	"fmt"
	"time"
)

// Refunding is what a buyer wants back of a payment. The zero value is nothing.
type Refunding int

// The ways of wanting money back.
const (
	// RefundAll cancels the payment.
	RefundAll Refunding = iota + 1
	// RefundPart is one part of it.
	RefundPart
	// RefundParts are two parts, one after the other.
	RefundParts
	// RefundTooMuch are two parts at the same time that exceed the payment together.
	RefundTooMuch
)

// wish is one refund that a buyer wants.
type wish struct {
	path, key string
	body      []byte
}

// wishes are the refunds of a payment.
func (b *Buyer) wishes(i *Intent) []wish {
	part := func(n int, amount int64) wish {
		return wish{path: "/payments/" + i.PaymentID + "/refunds", key: fmt.Sprintf("%s-back-%d", i.Key, n), body: fmt.Appendf(nil, `{"amount":%d}`, amount)}
	}
	amount := i.Amount
	switch b.Refunds {
	case RefundAll:
		return []wish{{path: "/payments/" + i.PaymentID + "/cancel"}}
	case RefundPart:
		return []wish{part(0, amount/3)}
	case RefundParts:
		return []wish{part(0, amount/4), part(1, amount/4)}
	case RefundTooMuch:
		return []wish{part(0, amount*2/3), part(1, amount*2/3)}
	}
	return nil
}

// refund asks for what the buyer wants back of a payment that was made.
func (b *Buyer) refund(w *World, p *Process, i *Intent) {
	if b.Refunds == 0 || i.Done != "SUCCEEDED" || i.PaymentID == "" {
		return
	}
	for n, x := range b.wishes(i) {
		if b.Refunds == RefundTooMuch && n == 0 {
			other := &future{w: w}
			w.Go(p, 0, func() {
				b.want(w, p, i, x)
				other.resolve()
			})
			defer other.await(background, p, time.Hour)
			continue
		}
		b.want(w, p, i, x)
	}
}

// want repeats one refund until there is a definite answer or patience ends.
func (b *Buyer) want(w *World, p *Process, i *Intent, x wish) {
	for try := range b.Patience {
		if try > 0 {
			_ = w.wait(nil, w.upTo(b.Pause)+100*time.Millisecond)
		}
		r, ok := w.Exchange(p, Message{Label: i.Name + " refund", Path: x.path, Token: b.Name, Key: x.key, Body: x.body}, b.Timeout)
		switch {
		case !ok:
		case r.Status == 422:
			w.counts.RefundsRefused++
			return
		case r.Status == 201 || r.Status == 402:
			return
		}
	}
}
