package postgres_test

import (
	"context"
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

// case 37: a cleaner beside eight consumers. Nobody deadlocks: nothing is tried again here,
// so that a deadlock would be an error. Each batch commits by itself and waits for nobody's
// lock, and what is younger than the horizon is still known. The case's million old rows
// take half a minute and show nothing more than this tenth.
func TestCleaningTheInboxDisturbsNoConsumer(t *testing.T) {
	t.Parallel()
	const old, fresh, batch, held = 100_000, 10_000, 1_000, 3
	place := database(t)
	begun := noon.Add(-30 * 24 * time.Hour).UnixMicro()
	run(t, place, `INSERT INTO inbox SELECT 'old-' || i, 'psp', 'ledger', $1::bigint + i FROM generate_series(1, $2::int) i`, begun, old)
	run(t, place, `INSERT INTO inbox SELECT 'fresh-' || i, 'psp', 'ledger', $1::bigint + i FROM generate_series(1, $2::int) i`,
		noon.Add(-3*24*time.Hour).UnixMicro(), fresh)
	store := open(t, postgres.Config{URL: place, Retries: -1})
	s, other := store.Payments(), open(t, postgres.Config{URL: place})
	key := func(id string) retryproof.InboxKey {
		return retryproof.InboxKey{Consumer: "ledger", Source: "psp", EventID: id}
	}
	var oldest []retryproof.InboxKey
	for i := range held {
		oldest = append(oldest, key(fmt.Sprintf("old-%d", i+1)))
	}
	release := hold(t, other, oldest, nil)
	// left is what another connection sees as the oldest row that nobody holds.
	left := func() (id string) {
		t.Helper()
		err := other.Pool().QueryRow(t.Context(), "SELECT event_id FROM inbox WHERE noted_at > $1 ORDER BY noted_at, event_id LIMIT 1", begun+held).Scan(&id)
		if err != nil {
			t.Error(err)
		}
		return id
	}
	var wg sync.WaitGroup
	var firsts atomic.Int64
	var slowest time.Duration
	forgotten := 0
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second) // less than for ever, if it waits for the held rows
		defer cancel()
		for {
			start := time.Now()
			n, err := s.Inbox.Forget(ctx, noon.Add(-7*24*time.Hour), batch)
			if err != nil {
				t.Errorf("the cleaner: %v", err)
				return
			}
			slowest = max(slowest, time.Since(start))
			if forgotten += n; forgotten == batch { // of the first batch, behind the rows that are held
				if got, want := left(), fmt.Sprintf("old-%d", held+batch+1); got != want {
					t.Errorf("after a batch another connection sees %s, want %s: the batch has committed", got, want)
				}
				release()
			}
			if n == 0 {
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
					first, err := s.Inbox.Apply(t.Context(), inbox.Apply{Key: key(id), Now: noon,
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
	if n := count(t, store, "inbox"); n != fresh+200 {
		t.Errorf("got %d rows left, want %d: all that are young", n, fresh+200)
	}
	if got, err := s.Ledger.Balance(t.Context(), "merchant:m1", "USD"); err != nil || got != 200 {
		t.Errorf("got balance %d and error %v, want 200", got, err)
	}
	t.Logf("the slowest batch of %d took %v", batch, slowest)
}
