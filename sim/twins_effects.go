package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
)

// rowAfterwards is without intent-first.
func rowAfterwards() Twin {
	return Twin{Rule: "intent-first", Instead: "the payment's row is written after the processor has answered", Harms: []string{HarmLostEffect, HarmVoidedRan, HarmStuck},
		World: func(p *Plan) { p.Chaos.Crash = max(p.Chaos.Crash, 0.02) },
		Stores: func(below payments.Stores) payments.Stores {
			d := newPlainStore(below)
			return d.stores(&lateRows{plainStore: d, begun: map[string]effect.Begin{}})
		}}
}

// lateRows keeps the rows of running attempts where the attempts are: in memory.
type lateRows struct {
	*plainStore
	begun map[string]effect.Begin
}

// unwritten is the row as only its attempt knows it.
func (l *lateRows) unwritten(b effect.Begin) *effect.Guard {
	l.begun[b.Owner] = b
	l.record(b)
	g := l.guard(b.GuardID)
	delete(l.guards, b.GuardID)
	return g
}

func (l *lateRows) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	if b.Void {
		return l.plainStore.Begin(ctx, b)
	}
	c := l.live(b.Scope, b.Now)
	if c == nil {
		c = l.claim(b)
	}
	seen := l.seen(b.Scope, b.GuardID, b.Now)
	if c.Owner == b.Owner && c.State == effect.InProgress && seen.Guard == nil {
		seen.Guard = l.unwritten(b)
	}
	return seen, nil
}

func (l *lateRows) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	if !a.Insert || l.guards[a.GuardID] != nil || !l.adoptableClaim(a) {
		return l.plainStore.Adopt(ctx, a)
	}
	l.adoptClaim(a)
	seen := l.seen(a.Scope, a.GuardID, a.Now)
	seen.Guard = l.unwritten(beginOf(a))
	return seen, nil
}

func (l *lateRows) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	if b, ok := l.begun[s.By]; ok && l.guards[s.ID] == nil {
		l.record(b)
	}
	return l.plainStore.Settle(ctx, s)
}

// noOwnerCheck is without owner-check.
func noOwnerCheck() Twin {
	return Twin{Rule: "owner-check", Instead: "an attempt completes with UPDATE … WHERE id, whoever owns the record by then", Harms: []string{HarmContradictory},
		Stores: relaxed(anyOwnerCompletes)}
}

func anyOwnerCompletes(d *plainStore) {
	d.mayComplete = func(*effect.Claim, effect.Completion) bool { return true }
	d.maySettle = func(g *effect.Guard, s effect.Settle) bool { return s.Claim != nil || maySettle(g, s) }
}

// leaseIsALock is without lease-margin. Alone it harms nobody, since the owner
// check fences the slower owner; whoever believes in leases has no owner check.
func leaseIsALock() Twin {
	return Twin{Rule: "lease-margin", Instead: "a lease is a lock: taken over at its end by any clock, and trusted without a fence", Harms: []string{HarmContradictory},
		World:  func(p *Plan) { p.Chaos.Skew = max(p.Chaos.Skew, 3*time.Second) },
		Config: func(c payments.Config) payments.Config { c.Margin = 1; return c },
		Stores: relaxed(anyOwnerCompletes)}
}

// unconditionalMoves is without transitions.
func unconditionalMoves() Twin {
	return Twin{Rule: "transitions", Instead: "the webhook and the resolver write the state they know, whatever is there", Harms: []string{HarmContradictory},
		World: (*Plan).hearWebhooksOnly,
		Stores: relaxed(func(d *plainStore) {
			d.maySettle = func(g *effect.Guard, s effect.Settle) bool { return s.Claim == nil || maySettle(g, s) }
		})}
}

// blindTakeover is without takeover-reads-guard.
func blindTakeover() Twin {
	return Twin{Rule: "takeover-reads-guard", Instead: "a takeover believes the key record and writes the payment's row anew", Harms: []string{HarmContradictory, HarmDoubleCharge, HarmVoidedRan},
		World: func(p *Plan) {
			p.forgetKeys(100 * time.Second)
			p.Chaos.Crash, p.Habits.Late = max(p.Chaos.Crash, 0.02), 1
		},
		Stores: func(below payments.Stores) payments.Stores {
			d := newPlainStore(below)
			return d.stores(blindly{d})
		}}
}

type blindly struct{ *plainStore }

func (b blindly) Begin(ctx context.Context, in effect.Begin) (effect.Seen, error) {
	seen, err := b.plainStore.Begin(ctx, in)
	if seen.Claim != nil && seen.Claim.State == effect.InProgress && seen.Claim.Owner != in.Owner {
		seen.Guard = nil // not looked at
	}
	return seen, err
}

func (b blindly) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	if !a.Insert || !b.adoptableClaim(a) {
		return b.plainStore.Adopt(ctx, a)
	}
	b.adoptClaim(a)
	b.record(beginOf(a))
	return b.seen(a.Scope, a.GuardID, a.Now), nil
}

// lostCommitIsFailure is without commit-readback.
func lostCommitIsFailure() Twin {
	return Twin{Rule: "commit-readback", Instead: "a COMMIT without an answer is taken for a rollback, and the failure is recorded",
		Harms: []string{HarmLostEffect, HarmDoubleCharge, HarmContradictory},
		World: func(p *Plan) { p.Chaos.Late = max(p.Chaos.Late, 0.05) },
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.Store.Effects = rolledBack{d.Store.Effects}
			return d
		}}
}

type rolledBack struct{ effect.Store }

func (r rolledBack) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	out, err := r.Store.Settle(ctx, s)
	if s.Claim == nil || s.To != effect.Succeeded || err == nil || retryproof.OutcomeOf(err) == retryproof.NotDone {
		return out, err
	}
	var text map[string]any
	if json.Unmarshal(s.Claim.Answer.Body, &text) != nil {
		return out, err
	}
	text["state"] = "FAILED"
	body, _ := json.Marshal(text)
	done := *s.Claim
	done.Answer = &effect.Answer{Status: http.StatusPaymentRequired, Header: s.Claim.Answer.Header, Body: body}
	s.To, s.Postings, s.Events, s.Row, s.Claim = effect.Failed, nil, nil, payments.Outcome{DeclineCode: "database_error"}, &done
	return r.Store.Settle(ctx, s)
}

// keyPerCall is without derived-psp-key.
func keyPerCall() Twin {
	return Twin{Rule: "derived-psp-key", Instead: "every call to the processor has a fresh key", Harms: []string{HarmDoubleCharge, HarmLostEffect},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			fresh := d.Rand
			d.PSP = keyOfCharge{d.PSP, func(psp.ChargeRequest) string { return entropy.Token(fresh) }}
			return d
		}}
}

// keyOfCharge names the charges of a process in its own way.
type keyOfCharge struct {
	payments.PSP
	key func(psp.ChargeRequest) string
}

func (k keyOfCharge) Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error) {
	r.Key = k.key(r)
	return k.PSP.Charge(ctx, r)
}

// timeoutIsFailure is without unknown.
func timeoutIsFailure() Twin {
	return Twin{Rule: "unknown", Instead: "a call to the processor that times out is stored as FAILED", Harms: []string{HarmLostEffect, HarmDoubleCharge},
		World: func(p *Plan) { p.Habits.PayAgain = 1 },
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.PSP = timedOut{d.PSP}
			return d
		}}
}

type timedOut struct{ payments.PSP }

func (t timedOut) Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error) {
	c, err := t.PSP.Charge(ctx, r)
	if err != nil && retryproof.OutcomeOf(err) == retryproof.Unknown {
		return psp.Charge{Reference: r.Reference, Amount: r.Amount, Currency: r.Currency, State: psp.Declined, DeclineCode: "timeout"}, nil
	}
	return c, err
}

// lateOriginal is without deadline.
func lateOriginal() Twin {
	return Twin{Rule: "deadline", Instead: "a request has arrived when its handler sees it, however long it waited in front of it", Harms: []string{HarmDoubleCharge, HarmLostEffect},
		World: func(p *Plan) {
			p.trust()
			p.Chaos.Queue, p.Chaos.MaxQueue = max(p.Chaos.Queue, 0.2), 20*time.Second
		},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.Arrived = nil
			return d
		}}
}

// refundKeyPerCall is without refund-key.
func refundKeyPerCall() Twin {
	return Twin{Rule: "refund-key", Instead: "every call of a refund to the processor has a fresh key", Harms: []string{HarmWrongAmount},
		World: func(p *Plan) { p.Habits.Refund, p.Config.ResolveUnknownOnly = 1, false },
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.PSP = freshRefunds{d.PSP, d.Rand}
			return d
		}}
}

type freshRefunds struct {
	payments.PSP
	fresh entropy.Source
}

func (f freshRefunds) Refund(ctx context.Context, r psp.RefundRequest) (psp.Refund, error) {
	r.Key = entropy.Token(f.fresh)
	return f.PSP.Refund(ctx, r)
}

// endlessKeyMemory is without psp-window. The repeat may also be declined, so that a
// payment is FAILED that was charged before.
func endlessKeyMemory() Twin {
	return Twin{Rule: "psp-window", Instead: "a charge or a refund is repeated under its key however old the key is", Harms: []string{HarmDoubleCharge, HarmWrongAmount, HarmLostEffect},
		World: func(p *Plan) {
			p.forgetKeys(100 * time.Second)
			p.Silence = Silence{From: time.Second, For: 3 * time.Minute}
		},
		Config: func(c payments.Config) payments.Config {
			c.PSPWindow, c.PSPWindowMargin = 10*365*24*time.Hour, time.Hour
			return c
		}}
}
