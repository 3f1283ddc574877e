package storetest

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/outbox"
)

func raceCases() []effectCase {
	return []effectCase{
		{name: "FiftyBeginsAtOnceHaveOneOwner", run: raceBegin},
		{name: "TwoMeaningsOfOneKeyNeverBothRun", run: raceMeanings},
		{name: "TakeoversAtOnceHaveOneWinner", run: raceAdopt},
		{name: "SettlementsAtOnceMoveOnce", run: raceSettle},
		{name: "WebhookResolverAndAttemptSettleOnce", run: raceThreeSettlers, rows: true},
		{name: "ReleaseAndTakeoverNeverBothHappen", run: raceReleaseAdopt},
	}
}

// via is the subject through the i-th instance, in turn.
func (s *subject) via(all []Stores, i int) effect.Store { return s.kind.store(all[i%len(all)]) }

// case 16
func raceBegin(s *subject) {
	all := s.instances()
	seen := together(s.world, 50, func(ctx context.Context, i int) (effect.Seen, error) {
		return s.via(all, i).Begin(ctx, s.beginning(fmt.Sprintf("A%d", i), 0.02))
	})
	final := s.look(1)
	owners := 0
	for i, one := range seen {
		if one.Claim == nil {
			s.Fatalf("call %d sees no claim", i)
		}
		check(s.world, "the owner that everybody sees", one.Claim.Owner, final.Claim.Owner)
		if one.Claim.Owner == fmt.Sprintf("A%d", i) {
			owners++
			s.wantGuard(one.Guard, effect.Pending, one.Claim.Owner)
		}
	}
	check(s.world, "owners", owners, 1)
	s.wantGuard(final.Guard, effect.Pending, final.Claim.Owner)
}

// case 15: check-then-act lets a mismatching racer commit.
func raceMeanings(s *subject) {
	const keys = 50
	all := s.instances()
	var subjects [keys][2]*subject
	for k := range keys {
		for m := range 2 {
			subjects[k][m] = s.subject(s.kind, fmt.Sprintf("K%d", k))
			subjects[k][m].print = retryproof.FingerprintOf(retryproof.Int("amount", int64(3000+500*m)))
		}
	}
	seen := together(s.world, 2*keys, func(ctx context.Context, i int) (effect.Seen, error) {
		one := subjects[i/2][i%2]
		return one.via(all, i).Begin(ctx, one.beginning(fmt.Sprintf("A%d", i), 0.02))
	})
	for k := range keys {
		runs := 0
		for m := range 2 {
			i := 2*k + m
			d := effect.Next(seen[i], fmt.Sprintf("A%d", i), subjects[k][m].print, at(0.02), effect.Policy{Margin: margin})
			switch d.Verdict {
			case effect.Run:
				runs++
			case effect.Mismatch:
			default:
				s.Errorf("key %d, meaning %d: got verdict %d, want run or mismatch", k, m, d.Verdict)
			}
		}
		check(s.world, fmt.Sprintf("runs of key %d", k), runs, 1)
		look := subjects[k][0].look(1)
		check(s.world, "claim and guard mean the same", look.Claim.Fingerprint, look.Guard.Fingerprint)
	}
}

func raceAdopt(s *subject) {
	s.begin("A", 0.02)
	all := s.instances()
	seen := together(s.world, 20, func(ctx context.Context, i int) (effect.Seen, error) {
		return s.via(all, i).Adopt(ctx, s.adoption(fmt.Sprintf("B%d", i), "A", 7))
	})
	final := s.look(8)
	winners := 0
	for i, one := range seen {
		if one.Guard.Owner == fmt.Sprintf("B%d", i) {
			winners++
		}
	}
	check(s.world, "winners", winners, 1)
	check(s.world, "claim and guard belong to one owner", final.Claim.Owner, final.Guard.Owner)
	check(s.world, "tries", final.Guard.Tries, 1)
}

func raceSettle(s *subject) {
	s.begin("A", 0.02)
	all := s.instances()
	settled := together(s.world, 20, func(ctx context.Context, i int) (effect.Settled, error) {
		to := []effect.State{effect.Succeeded, effect.Failed}[i%2]
		return s.via(all, i).Settle(ctx, s.evidence(fmt.Sprintf("W%d", i), to, 1))
	})
	final := s.look(2).Guard
	moves := 0
	for i, one := range settled {
		if one.Moved {
			moves++
			check(s.world, "the settler", final.SettledBy, fmt.Sprintf("W%d", i))
		}
		check(s.world, "the state that everybody sees", one.Guard.State, final.State)
	}
	check(s.world, "moves", moves, 1)
}

// case 17: per payment one move and one outbox row, and nobody gets an error.
func raceThreeSettlers(s *subject) {
	payments := 200
	if s.kind.split || !s.kind.payments {
		payments = 20
	}
	all := s.instances()
	subjects := make([]*subject, payments)
	for i := range subjects {
		subjects[i] = s.subject(s.kind, fmt.Sprintf("K%d", i))
	}
	together(s.world, payments, func(ctx context.Context, i int) (effect.Seen, error) {
		return subjects[i].via(all, i).Begin(ctx, subjects[i].beginning("A", 0.02))
	})
	settled := together(s.world, 3*payments, func(ctx context.Context, i int) (effect.Settled, error) {
		one := subjects[i/3]
		m := one.evidence("resolver", effect.Succeeded, 1)
		switch i % 3 {
		case 1:
			m = one.settlement("A", effect.Succeeded, 1)
			m.Claim = one.completion("A", ok200("final"), 3600)
		case 2:
			m.By = "webhook"
			m.Inbox = &retryproof.InboxKey{Consumer: "webhook", Source: "psp", EventID: fmt.Sprintf("evt_%d", i/3)}
		}
		m.Events = []retryproof.Event{event(one.id.Sub("SUCCEEDED"), fmt.Sprintf("m%d", i/3%7))}
		m.Postings = credit(string(one.id), 3000)
		return one.via(all, i).Settle(ctx, m)
	})
	for i := range payments {
		moves := 0
		for _, one := range settled[3*i : 3*i+3] {
			if one.Moved {
				moves++
			}
		}
		check(s.world, fmt.Sprintf("moves of payment %d", i), moves, 1)
	}
	check(s.world, "outbox rows", s.stats().Waiting, int64(payments))
	check(s.world, "m1", s.balance("merchant:m1"), int64(3000*payments))
	a := s.audit()
	check(s.world, "credits", a.Credits, int64(payments))
	check(s.world, "wrong balances", a.WrongBalance, 0)
	rows := must(s.world, func(ctx context.Context) ([]outbox.Row, error) {
		return s.Payments.Outbox.Claim(ctx, outbox.Claim{Relay: "r", Now: at(20), Until: at(30), Limit: 10 * payments})
	})
	check(s.world, "rows that can be sent", len(rows), payments)
}

// The owner gives up at the moment when its lease is stale.
func raceReleaseAdopt(s *subject) {
	all := s.instances()
	for round := range 10 {
		one := s.subject(s.kind, fmt.Sprintf("K%d", round))
		one.begin("A", 0.02)
		type result struct {
			gone bool
			seen effect.Seen
		}
		got := together(s.world, 2, func(ctx context.Context, i int) (result, error) {
			if i == 0 {
				gone, err := one.via(all, i).Release(ctx, effect.Release{Scope: one.scope, GuardID: one.id, Owner: "A"})
				return result{gone: gone}, err
			}
			seen, err := one.via(all, i).Adopt(ctx, one.adoption("B", "A", 7))
			return result{seen: seen}, err
		})
		adopted := got[1].seen.Guard != nil && got[1].seen.Guard.Owner == "B"
		check(s.world, "the guard is gone or adopted, not both", got[0].gone, !adopted)
		check(s.world, "the guard is there", one.look(8).Guard != nil, adopted)
	}
}
