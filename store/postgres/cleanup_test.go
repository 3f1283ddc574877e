package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/postgres"
)

// case 37: a cleaner beside consumers. Nobody deadlocks, and what is younger than the
// horizon is still known.
func TestCleaningTheInboxDisturbsNoConsumer(t *testing.T) {
	t.Parallel()
	const old, fresh, batch = 50_000, 5_000, 2_000
	place := database(t)
	run(t, place, `INSERT INTO inbox SELECT 'old-' || i, 'psp', 'ledger', $1::bigint + i FROM generate_series(1, $2::int) i`,
		noon.Add(-30*24*time.Hour).UnixMicro(), old)
	run(t, place, `INSERT INTO inbox SELECT 'fresh-' || i, 'psp', 'ledger', $1::bigint + i FROM generate_series(1, $2::int) i`,
		noon.Add(-3*24*time.Hour).UnixMicro(), fresh)
	s := open(t, postgres.Config{URL: place}).Payments()
	var wg sync.WaitGroup
	var firsts atomic.Int64
	var slowest time.Duration
	forgotten := 0
	wg.Go(func() {
		for {
			start := time.Now()
			n, err := s.Inbox.Forget(t.Context(), noon.Add(-7*24*time.Hour), batch)
			if err != nil {
				t.Errorf("the cleaner: %v", err)
				return
			}
			slowest = max(slowest, time.Since(start))
			if forgotten += n; n == 0 {
				return
			}
		}
	})
	for c := range 8 {
		wg.Go(func() {
			for i := range 50 {
				// New messages, each delivered by two consumers, and redriven ones of three days ago.
				ids := []string{fmt.Sprintf("new-%d", c/2*50+i), fmt.Sprintf("fresh-%d", 1+c*50+i)}
				for _, id := range ids {
					first, err := s.Inbox.Apply(t.Context(), inbox.Apply{Key: retryproof.InboxKey{Consumer: "ledger", Source: "psp", EventID: id}, Now: noon,
						Postings: []ledger.Posting{{Account: "merchant:m1", Currency: "USD", Amount: 1, Ref: id}, {Account: "cash", Currency: "USD", Amount: -1, Ref: id}}})
					if err != nil {
						t.Errorf("a consumer: %v", err)
						return
					}
					if first {
						firsts.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	if forgotten != old || firsts.Load() != 200 {
		t.Errorf("got %d forgotten and %d effects, want %d and 200", forgotten, firsts.Load(), old)
	}
	if got, err := s.Ledger.Balance(t.Context(), "merchant:m1", "USD"); err != nil || got != 200 {
		t.Errorf("got balance %d and error %v, want 200", got, err)
	}
	t.Logf("the slowest batch of %d took %v", batch, slowest)
}
