package payments

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/psp"
)

// The hops of the table (mission J2), in the order of the path.
const (
	hopPhone    = "phone"
	hopAPI      = "payment API"
	hopPSP      = "card processor"
	hopLedger   = "ledger"
	hopResolver = "resolver"
	hopWebhook  = "webhook"
	hopRelay    = "outbox relay"
	hopQueue    = "queue"
	hopWorker   = "worker"
	hopPush     = "push provider"
)

// maxSightings bounds what is kept in memory between two flushes; what comes on
// top is not counted.
const maxSightings = 100_000

// sightings gathers counts in memory, so that counting costs the hot path no
// write. A crash loses what was not flushed: the table explains, it guards
// nothing.
type sightings struct {
	mu      sync.Mutex
	entries []Sighting
}

// saw notes what a hop saw. The store adds up what is noted twice.
func (s *System) saw(id retryproof.ID, hop, what string) {
	if id == "" {
		return
	}
	now := s.deps.Clock.Now()
	t := &s.sightings
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.entries) < maxSightings {
		t.entries = append(t.entries, Sighting{PaymentID: id, Hop: hop, What: what, N: 1, At: now})
	}
}

// flushSightings writes the gathered counts. What cannot be written is dropped.
func (s *System) flushSightings(ctx context.Context) (int, error) {
	t := &s.sightings
	t.mu.Lock()
	entries := t.entries
	t.entries = nil
	t.mu.Unlock()
	if len(entries) == 0 {
		return 0, nil
	}
	const batch = 500
	for part := range slices.Chunk(entries, batch) {
		if err := s.deps.Store.Hops.AddSightings(ctx, part); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// paymentOf is the payment that an event id was derived from; empty for the events of
// refunds, which are no part of the payment's path.
func paymentOf(eventID string) retryproof.ID {
	id, what, _ := strings.Cut(eventID, ":")
	if what != "SUCCEEDED" || !strings.HasPrefix(id, "pay_") {
		return ""
	}
	return retryproof.ID(id)
}

// Hop is one line of the hop table of a payment.
type Hop struct {
	// Hop is the hop's name.
	Hop string `json:"hop"`
	// ID is what the hop knows the payment by.
	ID string `json:"id"`
	// Guard says what stops a repeat there, and Memory for how long.
	Guard  string `json:"guard"`
	Memory string `json:"memory"`
	// State is what the hop holds now; empty when it holds nothing.
	State string `json:"state,omitempty"`
	// Saw counts what passed: requests, repeats dropped.
	Saw map[string]int64 `json:"saw"`
}

// hops builds the table from the derived ids, the stored state and the sightings.
func (s *System) hops(ctx context.Context, p Payment) ([]Hop, error) {
	seen, err := s.deps.Store.Hops.Sightings(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	event := p.ID.Sub("SUCCEEDED")
	intent, err := s.deps.Store.Notify.Intent(ctx, notify.Key{EventID: event, Channel: channelPush})
	if err != nil {
		return nil, err
	}
	notified := ""
	if intent != nil {
		notified = string(intent.State)
	}
	table := []Hop{
		{Hop: hopPhone, ID: "the key in the phone's journal", Guard: "one key per intent; only a definite no lets it go", Memory: "until it is forgotten there"},
		{Hop: hopAPI, ID: string(p.ID), Guard: "claim on (endpoint, caller, key), fingerprint compared", Memory: spell(s.config.AnswerTTL) + " after the answer"},
		{Hop: hopLedger, ID: string(p.ID), Guard: "payment row, unique on (endpoint, caller, key)", Memory: "as long as the payment", State: string(p.State)},
		{Hop: hopPSP, ID: p.ID.Sub("charge"), Guard: "the PSP's idempotency key; its reference afterwards", Memory: spell(s.config.PSPWindow), State: p.ChargeID},
		{Hop: hopResolver, ID: p.ID.Sub("charge"), Guard: "compare-and-set on state and lease", Memory: "as long as the payment"},
		{Hop: hopWebhook, ID: "the PSP's event id", Guard: "inbox on (consumer, source, event id), allowed moves", Memory: spell(s.config.InboxRetention)},
		{Hop: hopRelay, ID: event, Guard: "stored event id, deleted after the queue's answer", Memory: "until the queue has it"},
		{Hop: hopQueue, ID: event, Guard: "dedup id, one at a time per merchant", Memory: spell(s.config.QueueWindow)},
		{Hop: hopWorker, ID: event, Guard: "inbox on (consumer, source, event id)", Memory: spell(s.config.InboxRetention)},
		{Hop: hopPush, ID: string(p.ID), Guard: "intent (event, channel); replace id on the screen", Memory: "as long as the intent", State: notified},
	}
	for i := range table {
		table[i].Saw = map[string]int64{}
		for _, sighting := range seen {
			if sighting.Hop == table[i].Hop {
				table[i].Saw[sighting.What] = sighting.N
			}
		}
		if table[i].Hop == hopPSP {
			if n, known := s.chargesOf(ctx, p); known {
				table[i].Saw["charges"] = n
			}
		}
	}
	return table, nil
}

// chargesOf counts the payment's charges: at the PSP, where the truth is, when the
// configuration allows the question; else as the ledger knows them.
func (s *System) chargesOf(ctx context.Context, p Payment) (int64, bool) {
	if !s.config.HopsAskPSP {
		if p.State == effect.Succeeded {
			return 1, true
		}
		return 0, p.State.Final()
	}
	ctx, cancel := s.deps.Clock.WithTimeout(ctx, time.Second)
	defer cancel()
	found, err := s.deps.PSP.Find(ctx, string(p.ID))
	if err != nil {
		return 0, false
	}
	n := int64(0)
	for _, c := range found {
		if c.State == psp.Succeeded {
			n++
		}
	}
	return n, true
}

// spell writes a duration as people say it: "30 days", "24 h", "5 min".
func spell(d time.Duration) string {
	switch {
	case d >= 48*time.Hour && d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return d.String()
}
