package saboteurs

import (
	"context"
	"sync"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/storetest"
)

// outboxFaults are wrong about leases and order.
func outboxFaults() []Saboteur {
	return []Saboteur{
		{"delete-without-lease", "Delete does not compare the relay", "RelayThatLostItsLeaseChangesNothing", inOutbox(deleteWithoutLease)},
		{"one-stranger-stops-the-delete", "Delete ends at a row that is not leased to the relay", "RowsOfABatchAreDeletedTogetherIfTheyAreLeased", inOutbox(oneStrangerStopsTheDelete)},
		{"every-delete-is-told", "Delete says that it removed what it left", "RowsOfABatchAreDeletedTogetherIfTheyAreLeased", inOutbox(everyDeleteIsTold)},
		{"lease-ends-early", "an outbox lease is over at exactly its end: <= for <", "LeaseIsAliveAtItsEnd", inOutbox(leaseEndsEarly)},
		{"order-by-readiness", "a deferred head lets its group pass", "DeferredHeadHoldsBackItsGroupOnly", inOutbox(orderByReadiness)},
		{"rows-in-reverse", "the rows of a claim come in no order", "GroupsStayInOrderInAnyPhysicalOrder", inOutbox(rowsInReverse)},
		{"parked-rows-wait", "parked rows are counted as waiting", "StatsCountWhatWaits", inOutbox(parkedRowsWait)},
		{"parked-rows-deleted", "Park deletes the row", "RedriveSendsOnce", inOutbox(parkedRowsDeleted)},
		{"redrive-drops-the-body", "Redrive ignores the repaired body", "RedriveSendsOnce", inOutbox(redriveDropsTheBody)},
		{"redrive-keeps-attempts", "Redrive leaves the attempts as they are", "RedrivenRowIsAsIfNeverTried", inOutbox(redriveKeepsAttempts)},
		{"untried-claims-count", "a claim that was given back untried counts", "AttemptsCountClaimsThatWereTried", inOutbox(untriedClaimsCount)},
		{"own-lease-lets-pass", "a relay may claim behind a row that it has leased", "LeasedHeadHoldsBackItsGroupForItsOwnRelayToo", inOutbox(ownLeaseLetsPass)},
	}
}

func inOutbox(plant func(outbox.Store) outbox.Store) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Payments.Outbox = plant(s.Payments.Outbox)
		return s
	}
}

// box is an outbox.Store with some methods replaced.
type box struct {
	outbox.Store
	claim   func(context.Context, outbox.Claim) ([]outbox.Row, error)
	remove  func(ctx context.Context, relay string, ids []string) ([]string, error)
	giveUp  func(context.Context, outbox.Defer) (bool, error)
	park    func(context.Context, outbox.Park) (bool, error)
	redrive func(context.Context, outbox.Redrive) (bool, error)
	stats   func(context.Context) (outbox.Stats, error)
}

func (b box) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
	if b.claim != nil {
		return b.claim(ctx, c)
	}
	return b.Store.Claim(ctx, c)
}

func (b box) Delete(ctx context.Context, relay string, ids []string) ([]string, error) {
	if b.remove != nil {
		return b.remove(ctx, relay, ids)
	}
	return b.Store.Delete(ctx, relay, ids)
}

func (b box) Defer(ctx context.Context, d outbox.Defer) (bool, error) {
	if b.giveUp != nil {
		return b.giveUp(ctx, d)
	}
	return b.Store.Defer(ctx, d)
}

func (b box) Park(ctx context.Context, p outbox.Park) (bool, error) {
	if b.park != nil {
		return b.park(ctx, p)
	}
	return b.Store.Park(ctx, p)
}

func (b box) Redrive(ctx context.Context, r outbox.Redrive) (bool, error) {
	if b.redrive != nil {
		return b.redrive(ctx, r)
	}
	return b.Store.Redrive(ctx, r)
}

func (b box) Stats(ctx context.Context) (outbox.Stats, error) {
	if b.stats != nil {
		return b.stats(ctx)
	}
	return b.Store.Stats(ctx)
}

// deleteWithoutLease remembers who leased each row last.
func deleteWithoutLease(right outbox.Store) outbox.Store {
	var holders sync.Map
	return box{Store: right,
		claim: func(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
			rows, err := right.Claim(ctx, c)
			for _, r := range rows {
				holders.Store(r.ID, c.Relay)
			}
			return rows, err
		},
		remove: func(ctx context.Context, relay string, ids []string) ([]string, error) {
			var gone []string
			for _, id := range ids {
				holder, _ := holders.LoadOrStore(id, relay)
				deleted, err := right.Delete(ctx, holder.(string), []string{id})
				if err != nil {
					return nil, err
				}
				gone = append(gone, deleted...)
			}
			return gone, nil
		},
	}
}

// oneStrangerStopsTheDelete deletes up to the first row that is not leased.
func oneStrangerStopsTheDelete(right outbox.Store) outbox.Store {
	return box{Store: right, remove: func(ctx context.Context, relay string, ids []string) ([]string, error) {
		var gone []string
		for _, id := range ids {
			deleted, err := right.Delete(ctx, relay, []string{id})
			if err != nil || len(deleted) == 0 {
				return gone, err
			}
			gone = append(gone, deleted...)
		}
		return gone, nil
	}}
}

// everyDeleteIsTold says of every row that it was removed.
func everyDeleteIsTold(right outbox.Store) outbox.Store {
	return box{Store: right, remove: func(ctx context.Context, relay string, ids []string) ([]string, error) {
		_, err := right.Delete(ctx, relay, ids)
		return ids, err
	}}
}

func leaseEndsEarly(right outbox.Store) outbox.Store {
	return box{Store: right, claim: func(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
		c.Until = c.Until.Add(-clock.Precision)
		return right.Claim(ctx, c)
	}}
}

// orderByReadiness takes deferred rows out of their group until their time.
func orderByReadiness(right outbox.Store) outbox.Store {
	var mu sync.Mutex
	aside := map[string]time.Time{}
	return box{Store: right,
		claim: func(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
			mu.Lock()
			defer mu.Unlock()
			for id, next := range aside { // order: each row alone
				if !next.After(c.Now) {
					delete(aside, id)
					_, _ = right.Redrive(ctx, outbox.Redrive{EventID: id, Now: c.Now})
				}
			}
			return right.Claim(ctx, c)
		},
		giveUp: func(ctx context.Context, d outbox.Defer) (bool, error) {
			ok, err := right.Park(ctx, outbox.Park{Relay: d.Relay, EventID: d.EventID, Now: d.NextAt, Reason: d.Reason})
			if ok {
				mu.Lock()
				defer mu.Unlock()
				aside[d.EventID] = d.NextAt
			}
			return ok, err
		},
	}
}

func rowsInReverse(right outbox.Store) outbox.Store {
	return box{Store: right, claim: func(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
		rows, err := right.Claim(ctx, c)
		for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
			rows[i], rows[j] = rows[j], rows[i]
		}
		return rows, err
	}}
}

func parkedRowsWait(right outbox.Store) outbox.Store {
	return box{Store: right, stats: func(ctx context.Context) (outbox.Stats, error) {
		st, err := right.Stats(ctx)
		st.Waiting += st.Parked
		return st, err
	}}
}

func parkedRowsDeleted(right outbox.Store) outbox.Store {
	return box{Store: right, park: func(ctx context.Context, p outbox.Park) (bool, error) {
		deleted, err := right.Delete(ctx, p.Relay, []string{p.EventID})
		return len(deleted) == 1, err
	}}
}

func redriveDropsTheBody(right outbox.Store) outbox.Store {
	return box{Store: right, redrive: func(ctx context.Context, r outbox.Redrive) (bool, error) {
		r.Body = nil
		return right.Redrive(ctx, r)
	}}
}

// redriveKeepsAttempts adds to each row what it had been tried before a redrive.
func redriveKeepsAttempts(right outbox.Store) outbox.Store {
	var mu sync.Mutex
	last, before := map[string]int{}, map[string]int{}
	return box{Store: right,
		claim: func(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
			mu.Lock()
			defer mu.Unlock()
			rows, err := right.Claim(ctx, c)
			for i, r := range rows {
				rows[i].Attempts += before[r.ID]
				last[r.ID] = rows[i].Attempts
			}
			return rows, err
		},
		redrive: func(ctx context.Context, r outbox.Redrive) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			ok, err := right.Redrive(ctx, r)
			if ok {
				before[r.EventID] = last[r.EventID]
			}
			return ok, err
		},
	}
}

func untriedClaimsCount(right outbox.Store) outbox.Store {
	return box{Store: right, giveUp: func(ctx context.Context, d outbox.Defer) (bool, error) {
		d.Untried = false
		return right.Defer(ctx, d)
	}}
}

// ownLeaseLetsPass hides a relay's leased rows from its next claim by parking
// them for that moment.
func ownLeaseLetsPass(right outbox.Store) outbox.Store {
	var mu sync.Mutex
	held := map[string]outbox.Claim{}
	return box{Store: right, claim: func(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
		mu.Lock()
		defer mu.Unlock()
		for id, by := range held { // order: each row alone
			if by.Relay == c.Relay && !by.Until.Before(c.Now) {
				_, _ = right.Park(ctx, outbox.Park{Relay: by.Relay, EventID: id, Now: c.Now})
			}
		}
		rows, err := right.Claim(ctx, c)
		for _, r := range rows {
			held[r.ID] = c
		}
		return rows, err
	}}
}
