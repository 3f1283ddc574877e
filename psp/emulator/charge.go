package emulator

import "time"

// ChargeRecord is one card that was charged. This is the company's own book: the
// truth about how often money moved.
type ChargeRecord struct {
	// ID is the charge's id, Intent its PaymentIntent's.
	ID     string `json:"id"`
	Intent string `json:"intent"`
	// Key is the idempotency key that charged it, "" for none.
	Key string `json:"key"`
	// Reference is metadata payment_id.
	Reference string `json:"reference"`
	// Amount and Refunded are minor units of Currency. Refunds that failed do not count.
	Amount   int64  `json:"amount"`
	Refunded int64  `json:"refunded"`
	Currency string `json:"currency"`
	// At is when the card was charged.
	At time.Time `json:"at"`
	// Requests and Replays count what came in with the key since this process
	// started: all requests that arrived, and those answered from memory.
	Requests int `json:"requests"`
	Replays  int `json:"replays"`
}

// Charges returns every charge in the order in which the PaymentIntents were made.
func (c *Core) Charges() []ChargeRecord { return c.ChargesAfter(0) }

// ChargesAfter is Charges without the first n.
func (c *Core) ChargesAfter(n int) []ChargeRecord {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []ChargeRecord{}
	for _, o := range c.intentOrder {
		i := c.intents[o.id]
		if i.ChargeID == "" || i.status(now) != statusSucceeded {
			continue
		}
		if n > 0 {
			n--
			continue
		}
		r := ChargeRecord{
			ID: i.ChargeID, Intent: i.ID, Key: i.ChargeKey, Reference: i.Metadata[referenceKey],
			Amount: i.Amount, Refunded: i.refunded(now), Currency: i.Currency, At: i.ChargedAt,
		}
		if count := c.counts[i.ChargeKey]; count != nil {
			r.Requests, r.Replays = count.requests, count.replays
		}
		out = append(out, r)
	}
	return out
}

// RefundRecord is one refund. This is the company's own book: the truth about how
// often money was given back.
type RefundRecord struct {
	ID string `json:"id"`
	// Charge is the charge's id, Intent its PaymentIntent's.
	Charge string `json:"charge"`
	Intent string `json:"intent"`
	// Key is the idempotency key that made it, "" for none.
	Key string `json:"key"`
	// Reference is metadata refund_id, Payment metadata payment_id.
	Reference string `json:"reference"`
	Payment   string `json:"payment"`
	// Amount is in minor units of Currency.
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
	// Status is pending, succeeded or failed, as it is now.
	Status string `json:"status"`
	// At is when it was made.
	At time.Time `json:"at"`
	// Requests and Replays are those of its key, as for a charge.
	Requests int `json:"requests"`
	Replays  int `json:"replays"`
}

// Refunds returns every refund in the order in which they were made, those that
// failed too.
func (c *Core) Refunds() []RefundRecord { return c.RefundsAfter(0) }

// RefundsAfter is Refunds without the first n.
func (c *Core) RefundsAfter(n int) []RefundRecord {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []RefundRecord{}
	for _, o := range c.refundOrder[min(max(n, 0), len(c.refundOrder)):] {
		r := c.refunds[o.id]
		record := RefundRecord{
			ID: r.ID, Charge: r.Charge, Intent: r.Intent, Key: r.Key, Reference: r.Metadata[refundKey], Payment: r.Metadata[referenceKey],
			Amount: r.Amount, Currency: r.Currency, Status: r.status(now), At: r.Created,
		}
		if count := c.counts[r.Key]; count != nil {
			record.Requests, record.Replays = count.requests, count.replays
		}
		out = append(out, record)
	}
	return out
}

// WebhookRecord is one webhook and what became of it.
type WebhookRecord struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	// Owed is how often it is to be delivered, Delivered how often it was.
	Owed      int `json:"owed"`
	Delivered int `json:"delivered"`
	// Failures counts failed attempts since the last delivery, in this process.
	Failures int `json:"failures"`
	// Next is when it is due, if it is still owed.
	Next      time.Time `json:"next"`
	LastError string    `json:"last_error,omitempty"`
}

// Webhooks returns every webhook in the order in which they came to be.
func (c *Core) Webhooks() []WebhookRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []WebhookRecord{}
	for _, n := range c.eventOrder {
		e := c.events[n.id]
		out = append(out, WebhookRecord{
			ID: e.ID, Type: e.Type, Owed: e.Times, Delivered: e.delivered, Failures: e.attempts, Next: e.next, LastError: e.lastError,
		})
	}
	return out
}
