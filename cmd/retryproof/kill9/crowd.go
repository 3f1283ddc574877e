package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retryproof/retryproof/httpkey"
)

// bought is an intent that has its definite answer.
type bought struct {
	paymentID string
	merchant  string
	amount    int64
}

// crowd are buyers who pay one order after another. Each keeps its key until it
// has a definite answer, whatever happens to the server.
type crowd struct {
	options
	client *http.Client
	leave  atomic.Bool
	done   chan struct{}
	count  atomic.Int64

	mu      sync.Mutex
	bought  []bought
	failure error
}

func newCrowd(o options) (*crowd, error) {
	transport, err := httpkey.NewTransport(httpkey.ClientConfig{
		Base:     &http.Transport{MaxIdleConnsPerHost: o.buyers, ResponseHeaderTimeout: 10 * time.Second},
		MaxTries: 1_000_000, Backoff: 50 * time.Millisecond, MaxBackoff: time.Second, TryTimeout: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &crowd{options: o, client: &http.Client{Transport: transport}, done: make(chan struct{})}, nil
}

func (c *crowd) answered() int64 { return c.count.Load() }

// start lets the buyers pay until finish is called.
func (c *crowd) start(ctx context.Context) {
	var buyers sync.WaitGroup
	for i := range c.buyers {
		buyers.Add(1)
		go func() {
			defer buyers.Done()
			orders := rand.New(rand.NewPCG(c.seed, uint64(i)+2))
			for n := 0; !c.leave.Load() && ctx.Err() == nil; n++ {
				if err := c.pay(ctx, i, n, orders); err != nil {
					c.fail(err)
					return
				}
			}
		}()
	}
	go func() { buyers.Wait(); close(c.done) }()
}

// finish lets every buyer end the payment that it is at.
func (c *crowd) finish(ctx context.Context, patience time.Duration) error {
	c.leave.Store(true)
	select {
	case <-c.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return fmt.Errorf("some buyers have no definite answer after %v", patience)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

func (c *crowd) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = err
	}
}

// pay pays one order; it returns when the answer is definite.
func (c *crowd) pay(ctx context.Context, buyer, n int, orders *rand.Rand) error {
	b := bought{merchant: fmt.Sprintf("m%d", orders.IntN(2)+1), amount: orders.Int64N(9000) + 100}
	order := fmt.Sprintf("%d-%d-%d", c.seed, buyer, n)
	body, err := json.Marshal(map[string]any{"order_id": order, "amount": b.amount, "currency": "USD", "payment_method": "pm_1", "merchant_id": b.merchant})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(httpkey.WithIntent(ctx, "pay "+order), http.MethodPost, "http://"+c.listen+"/payments", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", fmt.Sprintf("Bearer demo-u%d", buyer%2+1))
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(r)
	if err != nil {
		return fmt.Errorf("order %s: %w", order, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("order %s: %w", order, err)
	}
	var payment struct {
		ID, State string
		Amount    int64
	}
	if err := json.Unmarshal(text, &payment); err != nil || answer.StatusCode != http.StatusCreated || payment.State != "SUCCEEDED" || payment.Amount != b.amount {
		return fmt.Errorf("order %s of %d: %s: %s", order, b.amount, answer.Status, text)
	}
	b.paymentID = payment.ID
	c.count.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bought = append(c.bought, b)
	return nil
}
