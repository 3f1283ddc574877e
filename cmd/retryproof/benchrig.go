package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/push"
	"github.com/retryproof/retryproof/queue"
	queuememory "github.com/retryproof/retryproof/queue/memory"
)

// benchRig is the system with the outside taken away: the processor is a
// function, the queue is in memory, so that the store is what is measured.
type benchRig struct {
	stores payments.Stores
	system *payments.System
	// run makes the keys of this run its own.
	run string
}

func newBenchRig(_ context.Context, store openedStore) (*benchRig, error) {
	q, err := queuememory.New(clock.System(), queuememory.Config{})
	if err != nil {
		return nil, err
	}
	system, err := payments.New(payments.Deps{
		Store: store.Stores, Queue: q, PSP: instantPSP{}, Push: silentPush{},
		Authenticate: func(string) (string, bool) { return "u1", true },
	}, payments.Config{})
	return &benchRig{stores: store.Stores, system: system, run: entropy.Token(entropy.System())}, err
}

// operation returns what to measure, after preparing it for at most fill.
func (b *benchRig) operation(ctx context.Context, what string, clients int, fill time.Duration) (operation, error) {
	switch what {
	case "payments":
		return one(func(_ context.Context, client, n int) error { return b.pay(client, n) }), nil
	case "replays":
		for client := range clients {
			if err := b.pay(client, 0); err != nil {
				return nil, err
			}
		}
		return one(func(_ context.Context, client, _ int) error { return b.pay(client, 0) }), nil
	case "claims":
		return one(b.claim), nil
	case "inbox":
		return one(b.apply), nil
	}
	return b.prepareRelay(ctx, clients, fill)
}

// pay sends one payment through the whole API.
func (b *benchRig) pay(client, n int) error {
	body, err := json.Marshal(map[string]any{"order_id": fmt.Sprintf("%d-%d", client, n), "amount": 3000, "currency": "USD", "payment_method": "pm_1", "merchant_id": fmt.Sprintf("m%d", client)})
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, "/payments", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer bench")
	r.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d-%d", b.run, client, n))
	w := &benchAnswer{header: http.Header{}}
	b.system.Handler().ServeHTTP(w, r)
	if w.status != http.StatusCreated {
		return fmt.Errorf("bench: a payment was answered %d: %s", w.status, w.body.Bytes())
	}
	return nil
}

// benchAnswer is an http.ResponseWriter without a network.
type benchAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *benchAnswer) Header() http.Header { return w.header }

func (w *benchAnswer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *benchAnswer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// claim is the first of a payment's two commits.
func (b *benchRig) claim(ctx context.Context, client, n int) error {
	p, begin := b.payment(client, n)
	begin.Row = p
	seen, err := b.stores.Effects.Begin(ctx, begin)
	if err == nil && (seen.Guard == nil || seen.Guard.Owner != begin.Owner) {
		err = fmt.Errorf("bench: the claim of a fresh key was lost")
	}
	return err
}

// apply is what a worker commits for one event.
func (b *benchRig) apply(ctx context.Context, client, n int) error {
	id := fmt.Sprintf("pay_%s_%d_%d:SUCCEEDED", b.run, client, n)
	now := clock.System().Now()
	first, err := b.stores.Inbox.Apply(ctx, inbox.Apply{
		Key: retryproof.InboxKey{Consumer: "bench", Source: "bench", EventID: id}, Now: now,
		Postings: []ledger.Posting{
			{Account: "payments:transit", Currency: "USD", Amount: -3000, Ref: id},
			{Account: payments.MerchantAccount(fmt.Sprintf("m%d", client)), Currency: "USD", Amount: 3000, Ref: id}},
		Intents: []notify.Intent{{Key: notify.Key{EventID: id, Channel: "push"}, ReplaceID: id, To: "u1", Title: "t", Body: "b", State: notify.Pending, CreatedAt: now}},
	})
	if err == nil && !first {
		err = fmt.Errorf("bench: a fresh event was a repeat")
	}
	return err
}

// prepareRelay fills the outbox for a while; the clients are then relays that empty it, batch by
// batch, into a queue in memory.
func (b *benchRig) prepareRelay(ctx context.Context, clients int, fill time.Duration) (operation, error) {
	filled, err := measure(ctx, 64, fill, one(func(_ context.Context, client, n int) error { return b.pay(client, n) }))
	if err != nil || filled.units == 0 {
		return nil, fmt.Errorf("bench: filling the outbox: %w", err)
	}
	relays := make([]*outbox.Relay, clients)
	for i := range relays {
		if relays[i], err = outbox.NewRelay(b.stores.Outbox, acceptAll{}, outbox.Config{}); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, client, _ int) (int, error) {
		done, err := relays[client].RunOnce(ctx)
		if err == nil && done == 0 {
			err = errRanDry
		}
		return done, err
	}, nil
}

type instantPSP struct{}

func (instantPSP) Charge(_ context.Context, r psp.ChargeRequest) (psp.Charge, error) {
	return psp.Charge{ID: "ch_" + r.Key, Reference: r.Reference, Amount: r.Amount, Currency: r.Currency, State: psp.Succeeded}, nil
}

func (instantPSP) Retrieve(context.Context, string) (psp.Charge, error) { return psp.Charge{}, nil }

func (instantPSP) Find(context.Context, string) ([]psp.Charge, error) { return nil, nil }

func (instantPSP) Refund(_ context.Context, r psp.RefundRequest) (psp.Refund, error) {
	return psp.Refund{ID: "re_" + r.Key, Reference: r.Reference, Payment: r.Payment, ChargeID: r.ChargeID, Amount: r.Amount, Currency: r.Currency, State: psp.Succeeded}, nil
}

func (instantPSP) FindRefunds(context.Context, string, string) ([]psp.Refund, error) { return nil, nil }

func (instantPSP) Webhook([]byte, http.Header, time.Time) (psp.WebhookEvent, error) {
	return psp.WebhookEvent{}, nil
}

type silentPush struct{}

func (silentPush) Send(context.Context, push.Notification) error { return nil }

type acceptAll struct{}

func (acceptAll) Send(context.Context, queue.Message) error { return nil }

// payment is a fresh payment and its claim.
func (b *benchRig) payment(client, n int) (payments.Payment, effect.Begin) {
	scope := retryproof.Scope{Endpoint: "payments", Caller: "u1", Key: retryproof.Key(fmt.Sprintf("%s-claim-%d-%d", b.run, client, n))}
	id := retryproof.Of("pay", scope)
	order := payments.Order{OrderID: fmt.Sprintf("%d-%d", client, n), MerchantID: "m1", Amount: 3000, Currency: "USD", Method: "pm_1"}
	now := clock.System().Now()
	return payments.Payment{ID: id, Caller: "u1", OrderID: order.OrderID, MerchantID: order.MerchantID, Amount: order.Amount, Currency: order.Currency, Method: order.Method},
		effect.Begin{Scope: scope, GuardID: id, Fingerprint: order.Fingerprint(), Owner: entropy.Token(entropy.System()), Now: now, Until: now.Add(5 * time.Second)}
}
