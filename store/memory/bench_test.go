package memory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/memory"
)

// BenchmarkPayment takes one payment from its claim to the notification: seven
// store operations, with the relay in batches of 64. It also prints how much of a
// payment's time the store costs while a backlog of 10,000 unsettled payments and
// 10,000 waiting events lies beside it, as a ratio to the same without one.
func BenchmarkPayment(b *testing.B) {
	alone := pay(b, 0)
	beside := pay(b, 10000)
	b.ReportMetric(beside.Seconds()/alone.Seconds(), "backlog-ratio")
	b.ReportMetric(float64(b.N)/alone.Seconds(), "payments/s")
	b.ReportMetric(0, "ns/op")
}

func pay(b *testing.B, backlog int) time.Duration {
	b.Helper()
	s := memory.New().Payments()
	for i := range backlog {
		begin(b, s, -1-i)
		if _, err := s.Inbox.Apply(b.Context(), inbox.Apply{
			Key: retryproof.InboxKey{Consumer: "backlog", EventID: fmt.Sprint(i)}, Now: noon,
			Events: []retryproof.Event{{ID: fmt.Sprintf("backlog-%d", i), Group: "held back", At: noon}},
		}); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := s.Outbox.Claim(b.Context(), outbox.Claim{Relay: "held", Now: noon, Until: noon.AddDate(1, 0, 0), Limit: 1}); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	for i := range b.N {
		one(b, s, i)
	}
	return time.Since(start)
}

func begin(b *testing.B, s payments.Stores, i int) effect.Begin {
	scope := retryproof.Scope{Endpoint: "payments", Caller: "u1", Key: retryproof.Key(fmt.Sprintf("key-%d", i))}
	begin := effect.Begin{
		Scope: scope, GuardID: retryproof.Of("pay", scope), Fingerprint: "1=x", Owner: "A",
		Now: noon.Add(time.Duration(i) * time.Microsecond), Until: noon.Add(time.Hour),
		Row: payments.Payment{MerchantID: "m1", Amount: 3000, Currency: "USD"},
	}
	if _, err := s.Effects.Begin(b.Context(), begin); err != nil {
		b.Fatal(err)
	}
	return begin
}

func one(b *testing.B, s payments.Stores, i int) {
	ctx := context.Background()
	p := begin(b, s, i)
	event := retryproof.Event{ID: p.GuardID.Sub("SUCCEEDED"), Group: fmt.Sprintf("m%d", i%100), Body: []byte("{}"), At: p.Now}
	entry := func(ref string) []ledger.Posting {
		return []ledger.Posting{{Account: "transit", Currency: "USD", Amount: -3000, Ref: ref}, {Account: "merchant:m1", Currency: "USD", Amount: 3000, Ref: ref}}
	}
	out, err := s.Effects.Settle(ctx, effect.Settle{
		ID: p.GuardID, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "A", Fenced: true, Now: p.Now,
		Row: payments.Outcome{ChargeID: "ch_1"}, Postings: entry(string(p.GuardID)), Events: []retryproof.Event{event},
		Claim: &effect.Completion{Scope: p.Scope, Owner: "A", Answer: &effect.Answer{Status: 200, Body: []byte("{}")}, ExpiresAt: p.Now.Add(time.Hour)},
	})
	if err != nil || !out.Moved {
		b.Fatal(out, err)
	}
	if i%64 == 63 {
		rows, err := s.Outbox.Claim(ctx, outbox.Claim{Relay: "r", Now: p.Now, Until: p.Now.Add(time.Minute), Limit: 64})
		if err != nil || len(rows) != 64 {
			b.Fatal(len(rows), err)
		}
		ids := make([]string, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		if _, err := s.Outbox.Delete(ctx, "r", ids); err != nil {
			b.Fatal(err)
		}
	}
	key := notify.Key{EventID: event.ID, Channel: "push"}
	if _, err := s.Inbox.Apply(ctx, inbox.Apply{
		Key: retryproof.InboxKey{Consumer: "credit", Source: "payments", EventID: event.ID}, Now: p.Now,
		Postings: entry(event.ID), Intents: []notify.Intent{{Key: key, CreatedAt: p.Now}},
	}); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Notify.MarkSent(ctx, key, p.Now); err != nil {
		b.Fatal(err)
	}
}
