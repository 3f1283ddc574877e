package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
)

// Two refunds that fit alone and not together.
func raceRefunds(s *subject) {
	all := s.instances()
	for round, c := range []struct {
		n      int
		amount int64
		fit    int
	}{{2, 2000, 1}, {2, 2000, 1}, {2, 2000, 1}, {2, 2000, 1}, {20, 500, 6}, {20, 3000, 1}} {
		of := s.paymentIn(fmt.Sprintf("P%d", round), effect.Succeeded)
		subjects := make([]*subject, c.n)
		for i := range subjects {
			subjects[i] = s.refund(fmt.Sprintf("K%d-%d", round, i), of, c.amount)
		}
		taken := together(s.world, c.n, func(ctx context.Context, i int) (bool, error) {
			seen, err := subjects[i].via(all, i).Begin(ctx, subjects[i].beginning("A", 0.02))
			if retryproof.CodeOf(err) == retryproof.CodeExceeds {
				return false, nil
			}
			return seen.Guard != nil && seen.Guard.Owner == "A", err
		})
		check(s.world, fmt.Sprintf("refunds of %d at once that fit", c.amount), countTrue(taken), c.fit)
		for i, one := range subjects {
			check(s.world, "the guard is there", one.look(1).Guard != nil, taken[i])
		}
		s.wantRefunded(of, int64(c.fit)*c.amount)
	}
}

// Everybody who may end a refund does so at once, beside another that begins.
func raceRefundFails(s *subject) {
	all := s.instances()
	for round := range 5 {
		of := s.paymentIn(fmt.Sprintf("P%d", round), effect.Succeeded)
		one, next := s.refund(fmt.Sprintf("K%d", round), of, 2000), s.refund(fmt.Sprintf("N%d", round), of, 1000)
		one.begin("A", 0.02)
		ended := together(s.world, 9, func(ctx context.Context, i int) (bool, error) {
			switch {
			case i == 0:
				return one.via(all, i).Release(ctx, effect.Release{Scope: one.scope, GuardID: one.id, Owner: "A"})
			case i == 1:
				_, err := next.via(all, i).Begin(ctx, next.beginning("N", 0.02))
				return false, err
			}
			got, err := one.via(all, i).Settle(ctx, one.evidence(fmt.Sprintf("W%d", i), effect.Failed, 1))
			return got.Moved, err
		})
		check(s.world, "ends", countTrue(ended), 1)
		s.wantRefunded(of, 1000)
	}
}

func withinRefund(w *world) {
	k := kind{name: "Refunds", refunds: true}
	s := w.subject(k, "K1")
	of := w.paymentIn("P1", effect.Succeeded)
	one := s.refund("K1", of, 2000)
	one.begin("A1", 0.02)
	m := one.settlement("A1", effect.Failed, 1)
	m.Evidence, m.Row = proof("verdict", effect.EvidenceVerdict, 1), payments.RefundOutcome{RefundID: "re_1", FailureCode: "lost"}
	settle := func(end error) (moved bool) {
		err := w.within(func(ctx context.Context, tx Tx) error {
			got, err := tx.SettleRefund(ctx, m)
			moved = got.Moved
			return errors.Join(err, end)
		})
		if !errors.Is(err, end) {
			w.Fatalf("got error %v, want %v", err, end)
		}
		return moved
	}
	rollback := errors.New("the program changed its mind")
	one.unchanged("a transaction that is rolled back", 2, func() { check(w, "moved", settle(rollback), true) })
	s.wantRefunded(of, 2000)
	check(w, "moved", settle(nil), true)
	one.wantGuard(one.look(2).Guard, effect.Failed, "")
	one.wantEvidence("of a transaction", m.Evidence)
	s.wantRefunded(of, 0)
	one.unchanged("the repeat", 2, func() { check(w, "moved again", settle(nil), false) })
}
