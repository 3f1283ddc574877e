package saboteurs

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/storetest"
)

// refundFaults are wrong about refunds and about lists of payments.
func refundFaults() []Saboteur {
	return []Saboteur{
		{"reservation-kept-on-failed", "a refund that fails does not give its amount back", "RefundThatFailsGivesBackOnce", inRefunds(reservationKept)},
		{"given-back-twice", "a refund that fails gives its amount back again with each repeat", "RefundThatFailsGivesBackOnce", inRefunds(givenBackTwice)},
		{"given-back-on-unknown", "a refund whose outcome is not known gives its amount back", "UnknownAndSucceededRefundsKeepTheirReservation", inRefunds(givenBackOnUnknown)},
		{"release-keeps-the-reservation", "a released refund does not give its amount back", "ReleasedRefundGivesBackOnce", inRefunds(releaseKeepsTheReservation)},
		{"cap-excludes-the-rest", "the last of a payment cannot be refunded: < for <=", "RefundsNeverExceedTheirPayment", inRefunds(capExcludesTheRest)},
		{"cap-check-then-act", "the cap is judged by what was read before", "RefundsAtOnceStayWithinTheirPayment", inRefunds(capCheckThenAct)},
		{"cap-leaves-a-claim", "a refund over the cap leaves its claim behind", "RefundsNeverExceedTheirPayment", inRefunds(capLeavesAClaim)},
		{"cap-without-a-currency", "a refund's currency is not compared", "RefundOfAnothersPaymentIsRefusedAndWritesNothing", inRefunds(capWithoutACurrency)},
		{"adopted-without-a-reservation", "a refund that Adopt inserts reserves nothing", "AdoptedRefundReservesWhenItIsInserted", inRefunds(adoptedWithoutAReservation)},
		{"repeat-reserves-again", "a repeat of a refund reserves its amount again", "RepeatedRefundReservesOnce", inRefunds(repeatReservesAgain)},
		{"void-listed-as-refund", "a voided refund is listed as a refund of no payment", "VoidedRefundCountsNothing", voidListedAsRefund},
		{"paging-skips-equal-times", "a page begins after the time of the last payment, not after the payment", "PagesMissNothingAndRepeatNothing", inLedger(func(l payments.Ledger) payments.Ledger { return pagesByTime{l} })},
		{"period-with-its-end", "a period has its end too: <= for <", "PeriodHasItsBeginningAndNotItsEnd", inLedger(func(l payments.Ledger) payments.Ledger { return periodWithItsEnd{l} })},
		{"order-of-any-caller", "a list of an order does not compare the caller", "OrderIsOneCallersOfOneMerchant", inLedger(func(l payments.Ledger) payments.Ledger { return orderOfAnyCaller{l} })},
		{"list-by-id", "payments are listed by id alone", "PaymentsAreListedInOrder", inLedger(func(l payments.Ledger) payments.Ledger { return listByID{l} })},
	}
}

// books are a ledger that keeps what a fault has added to the refunded amounts.
type books struct {
	payments.Ledger
	mu    *sync.Mutex
	added map[retryproof.ID]int64
}

func (b books) add(id retryproof.ID, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.added[id] += amount
}

func (b books) Payment(ctx context.Context, id retryproof.ID) (payments.Payment, error) {
	p, err := b.Ledger.Payment(ctx, id)
	b.mu.Lock()
	defer b.mu.Unlock()
	p.Refunded += b.added[id]
	return p, err
}

// inRefunds plants a fault in the store of refunds; books are what everybody reads.
func inRefunds(plant func(right effect.Store, keys effect.Keys, b books) effect.Store) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		b := books{s.Payments.Ledger, &sync.Mutex{}, map[retryproof.ID]int64{}}
		s.Payments.Ledger = b
		s.Payments.Refunds = plant(s.Payments.Refunds, s.Keys, b)
		return s
	}
}

// settled calls then with every settlement's refund.
func settled(right effect.Store, then func(m effect.Settle, out effect.Settled, r payments.Refund)) effect.Store {
	return store{Store: right, settle: func(ctx context.Context, m effect.Settle) (effect.Settled, error) {
		out, err := right.Settle(ctx, m)
		if err == nil && out.Guard != nil {
			then(m, out, out.Guard.Row.(payments.Refund))
		}
		return out, err
	}}
}

func reservationKept(right effect.Store, _ effect.Keys, b books) effect.Store {
	return settled(right, func(m effect.Settle, out effect.Settled, r payments.Refund) {
		if out.Moved && m.To == effect.Failed {
			b.add(r.PaymentID, r.Amount)
		}
	})
}

func givenBackTwice(right effect.Store, _ effect.Keys, b books) effect.Store {
	return settled(right, func(m effect.Settle, out effect.Settled, r payments.Refund) {
		if !out.Moved && r.State == effect.Failed && m.To == effect.Failed {
			b.add(r.PaymentID, -r.Amount)
		}
	})
}

func givenBackOnUnknown(right effect.Store, _ effect.Keys, b books) effect.Store {
	return settled(right, func(m effect.Settle, out effect.Settled, r payments.Refund) {
		if out.Moved && m.To == effect.Unknown {
			b.add(r.PaymentID, -r.Amount)
		}
	})
}

func releaseKeepsTheReservation(right effect.Store, _ effect.Keys, b books) effect.Store {
	return store{Store: right, release: func(ctx context.Context, r effect.Release) (bool, error) {
		seen, err := right.Look(ctx, effect.Look{Scope: r.Scope, GuardID: r.GuardID})
		if err != nil {
			return false, err
		}
		gone, err := right.Release(ctx, r)
		if gone && seen.Guard != nil {
			row := seen.Guard.Row.(payments.Refund)
			b.add(row.PaymentID, row.Amount)
		}
		return gone, err
	}}
}

var errExceeds = retryproof.Refused(retryproof.CodeExceeds, "the payment has not so much left to refund", nil)

// left is how much of the payment of a first request is left.
func left(ctx context.Context, right effect.Store, bk books, b effect.Begin) (amount, rest int64, first bool) {
	seen, err := right.Look(ctx, lookAt(b))
	r, isRefund := b.Row.(payments.Refund)
	if err != nil || seen.Guard != nil || seen.Claim != nil || !isRefund {
		return 0, 0, false
	}
	p, err := bk.Ledger.Payment(ctx, r.PaymentID)
	return r.Amount, p.Amount - p.Refunded, err == nil && p.State == effect.Succeeded
}

func capExcludesTheRest(right effect.Store, _ effect.Keys, bk books) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		if amount, rest, first := left(ctx, right, bk, b); first && amount == rest {
			return effect.Seen{}, errExceeds
		}
		return right.Begin(ctx, b)
	}}
}

func capCheckThenAct(right effect.Store, _ effect.Keys, bk books) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		amount, rest, first := left(ctx, right, bk, b)
		for range 200 { // the moment that such a driver spends between its two statements
			runtime.Gosched()
		}
		seen, err := right.Begin(ctx, b)
		if first && amount <= rest && retryproof.CodeOf(err) == retryproof.CodeExceeds {
			claim := effect.Claim{Scope: b.Scope, GuardID: b.GuardID, State: effect.InProgress, Owner: b.Owner}
			return effect.Seen{Claim: &claim, Guard: &effect.Guard{ID: b.GuardID, State: effect.Pending, Owner: b.Owner}}, nil
		}
		return seen, err
	}}
}

func capLeavesAClaim(right effect.Store, keys effect.Keys, _ books) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		seen, err := right.Begin(ctx, b)
		if retryproof.CodeOf(err) == retryproof.CodeExceeds {
			_, _ = keys.ClaimKey(ctx, b)
		}
		return seen, err
	}}
}

func capWithoutACurrency(right effect.Store, _ effect.Keys, bk books) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		if r, ok := b.Row.(payments.Refund); ok {
			if p, err := bk.Ledger.Payment(ctx, r.PaymentID); err == nil {
				r.Currency = p.Currency
				b.Row = r
			}
		}
		return right.Begin(ctx, b)
	}}
}

func adoptedWithoutAReservation(right effect.Store, _ effect.Keys, bk books) effect.Store {
	return store{Store: right, adopt: func(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
		before, err := right.Look(ctx, effect.Look{Scope: a.Scope, GuardID: a.GuardID, Now: a.Now})
		if err != nil {
			return before, err
		}
		seen, err := right.Adopt(ctx, a)
		if err == nil && before.Guard == nil && seen.Guard != nil {
			r := seen.Guard.Row.(payments.Refund)
			bk.add(r.PaymentID, -r.Amount)
		}
		return seen, err
	}}
}

func repeatReservesAgain(right effect.Store, _ effect.Keys, bk books) effect.Store {
	return store{Store: right, begin: func(ctx context.Context, b effect.Begin) (effect.Seen, error) {
		before, err := right.Look(ctx, lookAt(b))
		if r, ok := b.Row.(payments.Refund); err == nil && ok && before.Guard != nil && before.Guard.Owner == b.Owner {
			bk.add(r.PaymentID, r.Amount)
		}
		return right.Begin(ctx, b)
	}}
}

type listsVoids struct{ payments.Ledger }

func (l listsVoids) Refunds(ctx context.Context, id retryproof.ID) ([]payments.Refund, error) {
	list, err := l.Ledger.Refunds(ctx, id)
	a, auditErr := l.Audit(ctx)
	if err == nil && auditErr == nil && id == "" && a.RefundsByState[effect.Void] > 0 {
		list = append(list, payments.Refund{State: effect.Void})
	}
	return list, err
}

func voidListedAsRefund(s storetest.Stores) storetest.Stores {
	s.Payments.Ledger = listsVoids{s.Payments.Ledger}
	return s
}

type pagesByTime struct{ payments.Ledger }

func (p pagesByTime) Payments(ctx context.Context, q payments.Query) ([]payments.Payment, error) {
	if q.After.ID != "" {
		q.After.ID = "\xff" // greater than every id
	}
	return p.Ledger.Payments(ctx, q)
}

type periodWithItsEnd struct{ payments.Ledger }

func (p periodWithItsEnd) Payments(ctx context.Context, q payments.Query) ([]payments.Payment, error) {
	if !q.To.IsZero() {
		q.To = q.To.Add(clock.Precision)
	}
	return p.Ledger.Payments(ctx, q)
}

type orderOfAnyCaller struct{ payments.Ledger }

func (o orderOfAnyCaller) Payments(ctx context.Context, q payments.Query) ([]payments.Payment, error) {
	if q.OrderID == "" || q.Limit <= 0 {
		return o.Ledger.Payments(ctx, q)
	}
	all := q
	all.Caller, all.MerchantID, all.OrderID, all.Limit = "", "", "", 1<<30
	list, err := o.Ledger.Payments(ctx, all)
	list = slices.DeleteFunc(list, func(p payments.Payment) bool { return p.MerchantID != q.MerchantID || p.OrderID != q.OrderID })
	return list[:min(len(list), q.Limit)], err
}

type listByID struct{ payments.Ledger }

func (l listByID) Payments(ctx context.Context, q payments.Query) ([]payments.Payment, error) {
	list, err := l.Ledger.Payments(ctx, q)
	slices.SortFunc(list, func(a, b payments.Payment) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list, err
}
