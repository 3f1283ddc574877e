package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/postgres"
)

const clients = 64

var noon = time.Date(2026, 3, 29, 12, 0, 0, 123456000, time.UTC)

// BenchmarkPayment compares, in one run, a payment (Begin and Settle: claim, guard,
// two postings, balance, event, completion) with the one-row INSERT of the same
// clients in the same database, each committed on its own.
func BenchmarkPayment(b *testing.B) {
	place := database(b)
	for _, c := range []struct {
		name   string
		config postgres.Config
	}{
		{"store=postgres", postgres.Config{}},
		{"store=postgres/alone", postgres.Config{MaxGroup: 1, MaxConns: clients}},
	} {
		b.Run(c.name, func(b *testing.B) {
			config := c.config
			config.URL = place + config.URL
			benchmarkPayment(b, config)
		})
	}
	b.Run("store=postgres-pooled", func(b *testing.B) { benchmarkPayment(b, postgres.Config{URL: pooled(b)}) })
}

func benchmarkPayment(b *testing.B, config postgres.Config) {
	s := open(b, config)
	wide := open(b, postgres.Config{URL: config.URL, MaxConns: clients}).Pool()
	for _, sql := range []string{"DROP TABLE IF EXISTS raw", "CREATE TABLE raw (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)"} {
		if _, err := wide.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	inserts := perSecond(b, max(b.N, 2000), func(ctx context.Context, _ int) error {
		_, err := wide.Exec(ctx, "INSERT INTO raw (v) VALUES ($1)", "x")
		return err
	})
	run := time.Now().UnixNano()
	b.ResetTimer()
	stores := s.Payments()
	paid := perSecond(b, b.N, func(ctx context.Context, i int) error { return pay(ctx, stores, run, i) })
	b.ReportMetric(paid, "payments/s")
	b.ReportMetric(inserts, "inserts/s")
	b.ReportMetric(paid/inserts, "payments/insert")
}

// perSecond runs n calls from 64 clients and returns their rate.
func perSecond(b *testing.B, n int, call func(ctx context.Context, i int) error) float64 {
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range clients {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if err := call(b.Context(), i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(start).Seconds()
}

func pay(ctx context.Context, s payments.Stores, run int64, i int) error {
	scope := retryproof.Scope{Endpoint: "payments", Caller: "u1", Key: retryproof.Key(fmt.Sprintf("key-%d-%d", run, i))}
	id := retryproof.Of("pay", scope)
	merchant := fmt.Sprintf("m%d", i%100)
	row := payments.Payment{ID: id, Caller: "u1", OrderID: "42", MerchantID: merchant, Amount: 3000, Currency: "USD", Method: "pm_1"}
	_, err := s.Effects.Begin(ctx, effect.Begin{Scope: scope, GuardID: id, Fingerprint: "1=x", Owner: "a", Now: noon, Until: noon.Add(5 * time.Second), Row: row})
	if err != nil {
		return err
	}
	event := id.Sub("SUCCEEDED")
	out, err := s.Effects.Settle(ctx, effect.Settle{
		ID: id, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "a", Fenced: true, Now: noon,
		Row: payments.Outcome{ChargeID: "ch_1"},
		Postings: []ledger.Posting{
			{Account: "payments:transit", Currency: "USD", Amount: -3000, Ref: event},
			{Account: "merchant:" + merchant, Currency: "USD", Amount: 3000, Ref: event},
		},
		Events: []retryproof.Event{{ID: event, Type: "payment.succeeded", Group: merchant, Body: []byte(`{"amount":3000}`), At: noon}},
		Claim:  &effect.Completion{Scope: scope, Owner: "a", Answer: &effect.Answer{Status: 200, Body: []byte(`{}`)}, ExpiresAt: noon.Add(time.Hour)},
	})
	if err == nil && !out.Completed {
		return fmt.Errorf("payment %d was not completed", i)
	}
	return err
}

// BenchmarkReplay is a repeat of a finished request.
func BenchmarkReplay(b *testing.B) {
	b.Run("store=postgres", func(b *testing.B) {
		s := open(b, postgres.Config{URL: database(b)}).Payments()
		if err := pay(b.Context(), s, 0, 1); err != nil {
			b.Fatal(err)
		}
		scope := retryproof.Scope{Endpoint: "payments", Caller: "u1", Key: "key-0-1"}
		ask := effect.Begin{Scope: scope, GuardID: retryproof.Of("pay", scope), Fingerprint: "1=x", Owner: "b", Now: noon, Until: noon, Row: payments.Payment{}}
		b.ResetTimer()
		rate := perSecond(b, b.N, func(ctx context.Context, _ int) error {
			_, err := s.Effects.Begin(ctx, ask)
			return err
		})
		b.ReportMetric(rate, "replays/s")
	})
}
