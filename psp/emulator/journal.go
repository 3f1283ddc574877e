package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Journal keeps the company's accepted changes. Records are opaque.
type Journal interface {
	// Append returns nil when the record is durable. An error must mean that the
	// record is not there and never will be: a journal that lost the answer to its
	// own commit has to look before it returns. (Should the record be there
	// nevertheless, a repeat of the same request under the same key takes its place
	// and does not add to it.)
	Append(ctx context.Context, record []byte) error
	// Replay calls f with every record in the order of their appends and returns
	// f's first error. f does not keep the slice.
	Replay(ctx context.Context, f func(record []byte) error) error
}

// MemoryJournal is a journal that lives as long as the process. The zero value is
// empty and ready.
type MemoryJournal struct {
	mu      sync.Mutex
	records [][]byte
}

// Append keeps a copy of the record. It never fails.
func (j *MemoryJournal) Append(_ context.Context, record []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = append(j.records, bytes.Clone(record))
	return nil
}

// Replay calls f with every record, oldest first.
func (j *MemoryJournal) Replay(_ context.Context, f func(record []byte) error) error {
	j.mu.Lock()
	records := slices.Clone(j.records)
	j.mu.Unlock()
	for _, r := range records {
		if err := f(bytes.Clone(r)); err != nil {
			return err
		}
	}
	return nil
}

// recordVersion is the version of the record format that this program writes.
const recordVersion = 1

// record is one accepted change. It holds results, not requests: to rebuild is to
// copy, so that a later version of the rules cannot change what happened.
type record struct {
	Version int            `json:"v"`
	At      time.Time      `json:"at"`
	Write   *writeRecord   `json:"write,omitempty"`
	Webhook *webhookRecord `json:"webhook,omitempty"`
	Method  *methodRecord  `json:"method,omitempty"`
	Account *accountRecord `json:"account,omitempty"`
}

// writeRecord is one executed API write: its effect, the memory of its key and
// the webhooks that it owes, in one record, so that no crash separates them.
type writeRecord struct {
	Key         string      `json:"key,omitempty"`
	FirstUse    time.Time   `json:"first_use"`
	Fingerprint fingerprint `json:"fingerprint,omitempty"`
	Life        int         `json:"life,omitempty"`
	Status      int         `json:"status"`
	Body        []byte      `json:"body,omitempty"`
	Intent      *intent     `json:"intent,omitempty"`
	Refund      *refund     `json:"refund,omitempty"`
	Events      []event     `json:"events,omitempty"`

	said any // what Body says; commit encodes it for the journal
}

// webhookRecord notes that a webhook was received.
type webhookRecord struct {
	Event     string `json:"event"`
	Delivered int    `json:"delivered"`
}

// methodRecord notes how a payment method answers from now on.
type methodRecord struct {
	Method      string `json:"method"`
	DeclineCode string `json:"decline_code"`
}

// commit makes a record durable and then applies it. On error nothing happened.
func (c *Core) commit(ctx context.Context, r record) error {
	r.Version = recordVersion
	if c.cfg.Journal != nil {
		if w := r.Write; w != nil && w.Body == nil && w.said != nil {
			w.Body = encode(w.said)
		}
		b, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("emulator: encode the record: %w", err)
		}
		if err := c.cfg.Journal.Append(ctx, b); err != nil {
			return fmt.Errorf("emulator: append to the journal: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apply(r)
	return nil
}

func (c *Core) rebuild(b []byte) error {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("emulator: a journal record is broken: %w", err)
	}
	if r.Version != recordVersion || (r.Write == nil && r.Webhook == nil && r.Method == nil && r.Account == nil) {
		return fmt.Errorf("emulator: a journal record has version %d or an unknown kind; this program reads version %d", r.Version, recordVersion)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apply(r)
	return nil
}

// apply copies a record into the state. Applying it twice is applying it once.
func (c *Core) apply(r record) {
	if w := r.Write; w != nil {
		c.applyWrite(w)
	}
	if w := r.Webhook; w != nil {
		if e := c.events[w.Event]; e != nil && w.Delivered > e.delivered {
			e.delivered, e.attempts = w.Delivered, 0
			e.next = r.At.Add(e.Gap)
			if e.delivered >= e.Times {
				e.Payload, e.said = nil, nil // the journal has it
			}
		}
	}
	if m := r.Method; m != nil {
		c.methods[m.Method] = m.DeclineCode
	}
	if a := r.Account; a != nil {
		c.account = a.ID
	}
}

func (c *Core) applyWrite(w *writeRecord) {
	if w.Key != "" {
		c.forgetAnswers(w.FirstUse)
		c.fresh = append(c.fresh, freshKey{w.Key, w.FirstUse})
		c.keys[w.Key] = &keyMemory{FirstUse: w.FirstUse, Fingerprint: w.Fingerprint, Life: w.Life, Status: w.Status, Body: w.Body, said: w.said}
	}
	if w.Intent != nil {
		isNew, ref := c.intents[w.Intent.ID] == nil, w.Intent.Metadata[referenceKey]
		c.intentOrder = enlist(c.intentOrder, isNew, w.Intent.Seq, w.Intent.ID)
		c.byReference[ref] = enlist(c.byReference[ref], isNew && ref != "", w.Intent.Seq, w.Intent.ID)
		c.intents[w.Intent.ID] = w.Intent
		c.seq = max(c.seq, w.Intent.Seq)
	}
	if w.Refund != nil {
		isNew, of := c.refunds[w.Refund.ID] == nil, w.Refund.Intent
		c.refundOrder = enlist(c.refundOrder, isNew, w.Refund.Seq, w.Refund.ID)
		c.refundsOf[of] = enlist(c.refundsOf[of], isNew, w.Refund.Seq, w.Refund.ID)
		c.refunds[w.Refund.ID] = w.Refund
		c.seq = max(c.seq, w.Refund.Seq)
	}
	for i := range w.Events {
		e := w.Events[i]
		e.next = e.Due
		c.eventOrder = enlist(c.eventOrder, c.events[e.ID] == nil, e.Seq, e.ID)
		c.owing = enlist(c.owing, c.events[e.ID] == nil, e.Seq, e.ID)
		c.events[e.ID] = &e
		c.seq = max(c.seq, e.Seq)
	}
}

// enlist puts a new id at its place. Records of different objects may reach the
// journal out of the order of their numbers; listings must not show that.
func enlist(order []numbered, isNew bool, seq int64, id string) []numbered {
	if !isNew {
		return order
	}
	at, _ := slices.BinarySearchFunc(order, seq, func(n numbered, s int64) int { return int(n.seq - s) })
	return slices.Insert(order, at, numbered{seq, id})
}
