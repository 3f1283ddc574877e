package emulator

import (
	"slices"
	"strconv"
	"time"
)

// The statuses of a refund that are not a PaymentIntent's too.
const (
	statusPending = "pending"
	statusFailed  = "failed"
)

// Metadata names of psp.RefundRequest; the payment's is referenceKey.
const refundKey = "refund_id"

// The words of refusals and failures when a fault names none.
const (
	defaultRefusal = "charge_disputed"
	defaultFailure = "expired_or_canceled_card"
)

// refund is money given back. Records hold it whole.
type refund struct {
	ID       string            `json:"id"`
	Seq      int64             `json:"seq"`
	Intent   string            `json:"intent"`
	Charge   string            `json:"charge"`
	Key      string            `json:"key,omitempty"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Reason   string            `json:"reason,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Created  time.Time         `json:"created"`
	// First is the status until SettlesAt, Last the one from then on. Without a
	// SettlesAt the refund has succeeded.
	First     string    `json:"first,omitempty"`
	Last      string    `json:"last,omitempty"`
	SettlesAt time.Time `json:"settles_at,omitzero"`
	// Failure is why, when Last is failed.
	Failure string `json:"failure,omitempty"`
}

// status is the refund's status at the given time.
func (r *refund) status(now time.Time) string {
	switch {
	case r.SettlesAt.IsZero():
		return statusSucceeded
	case now.Before(r.SettlesAt):
		return r.First
	}
	return r.Last
}

type refundJSON struct {
	ID            string            `json:"id"`
	Object        string            `json:"object"`
	Amount        int64             `json:"amount"`
	Charge        string            `json:"charge"`
	Created       int64             `json:"created"`
	Currency      string            `json:"currency"`
	FailureReason string            `json:"failure_reason,omitempty"`
	Metadata      map[string]string `json:"metadata"`
	PaymentIntent string            `json:"payment_intent"`
	PendingReason string            `json:"pending_reason,omitempty"`
	Reason        *string           `json:"reason"`
	Status        string            `json:"status"`
}

func (r *refund) render(now time.Time) *refundJSON {
	j := &refundJSON{
		ID: r.ID, Object: "refund", Amount: r.Amount, Charge: r.Charge, Created: r.Created.Unix(), Currency: r.Currency,
		Metadata: r.Metadata, PaymentIntent: r.Intent, Reason: optional(r.Reason), Status: r.status(now),
	}
	switch j.Status {
	case statusPending:
		j.PendingReason = "processing"
	case statusFailed:
		j.FailureReason = r.Failure
	}
	if j.Metadata == nil {
		j.Metadata = map[string]string{}
	}
	return j
}

// parseRefund also finds the PaymentIntent, by its id or by its charge's.
func parseRefund(c *Core, k *call) (*form, *failure) {
	f, fail := k.parse(refundParams)
	if fail != nil {
		return nil, fail
	}
	if _, fail := f.amount(0, false); fail != nil {
		return nil, fail
	}
	if r := f.values["reason"]; r != "" && !slices.Contains([]string{"duplicate", "fraudulent", "requested_by_customer"}, r) {
		return nil, invalid("", "reason", "Reason must be duplicate, fraudulent or requested_by_customer.")
	}
	id, charge := f.values["payment_intent"], f.values["charge"]
	if (id == "") == (charge == "") {
		return nil, invalid("parameter_missing", "payment_intent", "Give a payment_intent or a charge to refund, one of them.")
	}
	if charge != "" {
		at := slices.IndexFunc(c.intentOrder, func(n numbered) bool { return c.intents[n.id].ChargeID == charge })
		if at < 0 {
			return nil, missing("charge", charge, "charge")
		}
		id = c.intentOrder[at].id
	}
	if c.intents[id] == nil {
		return nil, missing("payment_intent", id, "payment_intent")
	}
	k.route.id = id
	return f, nil
}

// executeRefund gives money back, as far as some is left. What is refused here is
// saved for the key, like what is done.
func executeRefund(c *Core, k *call, w *writeRecord, now time.Time) ([]string, *failure) {
	i, fail := c.own(k)
	if fail != nil {
		return nil, fail
	}
	left := i.Amount - i.refunded(now)
	amount, _ := k.form.amount(0, false) // parseRefund has checked it
	if amount == 0 {
		amount = left
	}
	var refused *failure
	switch {
	case i.status(now) != statusSucceeded:
		refused = invalid("payment_intent_unexpected_state", "payment_intent", "A PaymentIntent with the status "+i.status(now)+" cannot be refunded.")
	case left == 0:
		refused = invalid("charge_already_refunded", "", "The charge has been refunded already.")
	case amount > left:
		refused = invalid("amount_too_large", "amount", "The refund is greater than what is left: "+strconv.FormatInt(left, 10)+".")
	default:
		if f := c.take(k.route.operation, Decline, ""); f != nil {
			refused = invalid(orDefault(f.DeclineCode, defaultRefusal), "", "The charge cannot be refunded.")
		}
	}
	if refused != nil {
		w.Status, w.said = refused.status, refused
		return nil, nil
	}
	i.Refunded += amount
	seq := c.nextSeq()
	r := &refund{
		ID: newID("re", k.Key, k.life, seq, now), Seq: seq, Intent: i.ID, Charge: i.ChargeID, Key: k.Key, Amount: amount,
		Currency: i.Currency, Reason: k.form.values["reason"], Metadata: k.form.metadata, Created: now,
	}
	c.foretell(k, r)
	if r.Last == statusFailed {
		i.Returns = append(slices.Clone(i.Returns), returned{r.SettlesAt, amount})
	}
	w.Intent, w.Refund = i, r
	w.Status, w.said = 200, r.render(now)
	return c.announceRefund(k, w, now), nil
}

// foretell lets a fault decide what becomes of a refund. The caller holds the lock.
func (c *Core) foretell(k *call, r *refund) {
	for _, fate := range []struct {
		do          Action
		first, last string
	}{
		{Processing, statusPending, statusSucceeded},
		{FailPending, statusPending, statusFailed},
		{FailLater, statusSucceeded, statusFailed},
	} {
		f := c.take(k.route.operation, fate.do, "")
		if f == nil {
			continue
		}
		r.First, r.Last, r.SettlesAt = fate.first, fate.last, r.Created.Add(f.By)
		if r.Last == statusFailed {
			r.Failure = orDefault(f.DeclineCode, defaultFailure)
		}
		return
	}
}

// announceRefund adds the webhooks: the refund's first, so that a fault that meets
// one webhook meets the one that names the refund.
func (c *Core) announceRefund(k *call, w *writeRecord, now time.Time) []string {
	early := c.announce(k, w, "refund.created", w.Refund.render(now), now)
	if at := w.Refund.SettlesAt; !at.IsZero() {
		kind := "refund.updated"
		if w.Refund.Last == statusFailed {
			kind = "refund.failed"
		}
		early = append(early, c.announce(k, w, kind, w.Refund.render(at), at)...)
	}
	return append(early, c.announce(k, w, "charge.refunded", w.Intent.renderCharge(now), now)...)
}

func orDefault(s, byDefault string) string {
	if s == "" {
		return byDefault
	}
	return s
}

func readRefund(c *Core, k *call, now time.Time) ([]byte, *failure) {
	r := c.refunds[k.route.id]
	if r == nil {
		return nil, missing("refund", k.route.id, "id")
	}
	return encode(r.render(now)), nil
}

// listRefunds lists all refunds, or those of one PaymentIntent or charge, which must
// be there.
func listRefunds(c *Core, k *call, now time.Time) ([]byte, *failure) {
	intent, charge := k.form.values["payment_intent"], k.form.values["charge"]
	candidates := c.refundOrder
	if intent != "" {
		if c.intents[intent] == nil {
			return nil, missing("payment_intent", intent, "payment_intent")
		}
		candidates = c.refundsOf[intent]
	}
	if charge != "" && !slices.ContainsFunc(c.intentOrder, func(n numbered) bool { return c.intents[n.id].ChargeID == charge }) {
		return nil, missing("charge", charge, "charge")
	}
	var found []numbered
	for _, n := range candidates {
		r := c.refunds[n.id]
		if (charge == "" || r.Charge == charge) && k.form.matchesCreated(r.Created) {
			found = append(found, n)
		}
	}
	numberOf := func(id string) (int64, bool) {
		r := c.refunds[id]
		if r == nil {
			return 0, false
		}
		return r.Seq, true
	}
	return page(k, found, "refund", numberOf, func(id string) any { return c.refunds[id].render(now) })
}
