package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
)

// keyPerAttempt is without key-before-send.
func keyPerAttempt() Twin {
	return Twin{Rule: "key-before-send", Instead: "the client makes a key for every attempt", Harms: []string{HarmDoubleCharge},
		Phone: func(b *Buyer) {
			b.KeyOf = func(i *Intent, try int) string { return fmt.Sprintf("%s-try-%d", i.Key, try) }
		}}
}

// keyAlone is without scope-caller. The payment's id still names the caller: only
// the key record is shared.
func keyAlone() Twin {
	return Twin{Rule: "scope-caller", Instead: "key records are found by the key alone, whoever sends it", Harms: []string{HarmCrossCaller},
		World: func(p *Plan) { p.SameKeys, p.Habits.SameOrders, p.Buyers = true, true, max(p.Buyers, 2) },
		Stores: relaxed(func(d *plainStore) {
			d.claimKey = func(s retryproof.Scope) retryproof.Scope { return retryproof.Scope{Key: s.Key} }
		})}
}

// noFingerprint is without fingerprint.
func noFingerprint() Twin {
	return Twin{Rule: "fingerprint", Instead: "a key that is known is replayed, whatever the request now says", Harms: []string{HarmWrongAmount},
		World: (*Plan).edit,
		Stores: func(below payments.Stores) payments.Stores {
			below.Effects = meaningless{below.Effects}
			return below
		}}
}

// meaningless shows every record as if it had the asker's meaning.
type meaningless struct{ effect.Store }

func (m meaningless) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	seen, err := m.Store.Begin(ctx, b)
	return sameMeaning(seen, b.Fingerprint), err
}

func (m meaningless) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	seen, err := m.Store.Adopt(ctx, a)
	return sameMeaning(seen, a.Fingerprint), err
}

func sameMeaning(seen effect.Seen, f retryproof.Fingerprint) effect.Seen {
	if seen.Claim != nil {
		seen.Claim.Fingerprint = f
	}
	if seen.Guard != nil {
		seen.Guard.Fingerprint = f
	}
	return seen
}

// noGuard is without guard: the key record knows the payment for as long as it is
// kept, and nothing else does.
func noGuard() Twin {
	return Twin{Rule: "guard", Instead: "payments have random ids and no unique key; only the key record, which expires, knows the payment",
		Harms: []string{HarmDoubleCharge, HarmContradictory, HarmLostEffect},
		Stores: func(below payments.Stores) payments.Stores {
			d := newPlainStore(below)
			return d.stores(&randomIDs{plainStore: d, drawn: map[string]retryproof.ID{}})
		},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.PSP = keyOfCharge{d.PSP, func(r psp.ChargeRequest) string { return r.Reference + ":charge" }}
			return d
		}}
}

// randomIDs names a payment when its key record is written. An attempt remembers
// the id that it was told.
type randomIDs struct {
	*plainStore
	drawn map[string]retryproof.ID
}

func (r *randomIDs) id(owner string, asked retryproof.ID) retryproof.ID {
	if id, ok := r.drawn[owner]; ok {
		return id
	}
	return asked
}

func (r *randomIDs) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	if b.Void {
		return r.plainStore.Begin(ctx, b)
	}
	b.GuardID = retryproof.Derive("pay", "random", b.Owner) // the token is random
	if c := r.live(b.Scope, b.Now); c != nil {
		b.GuardID = c.GuardID
	}
	r.drawn[b.Owner] = b.GuardID
	return r.plainStore.Begin(ctx, b)
}

func (r *randomIDs) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	a.GuardID = r.id(a.Owner, a.GuardID)
	return r.plainStore.Adopt(ctx, a)
}

func (r *randomIDs) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	s.ID = r.id(s.By, s.ID)
	return r.plainStore.Settle(ctx, s)
}

func (r *randomIDs) Release(ctx context.Context, in effect.Release) (bool, error) {
	in.GuardID = r.id(in.Owner, in.GuardID)
	return r.plainStore.Release(ctx, in)
}

func (r *randomIDs) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	if c := r.live(l.Scope, l.Now); r.guards[l.GuardID] == nil && c != nil {
		l.GuardID = c.GuardID
	}
	return r.plainStore.Look(ctx, l)
}

// onlyLooks is without void.
func onlyLooks() Twin {
	return Twin{Rule: "void", Instead: "the question what became of a key only looks: nothing found is 404, and nothing is written", Harms: []string{HarmDoubleCharge, HarmLostEffect},
		World: func(p *Plan) {
			p.Habits.Ask, p.Habits.Hurry = 1, 1
			p.Chaos.Queue, p.Chaos.MaxQueue = max(p.Chaos.Queue, 0.3), 6*time.Second
		},
		Phone: func(b *Buyer) { b.Question = lookAtKey }}
}

// storedPointer is without pointer.
func storedPointer() Twin {
	return Twin{Rule: "pointer", Instead: "a 202 is stored and replayed byte for byte, like any answer", Harms: []string{HarmContradictory},
		Stores: func(below payments.Stores) payments.Stores {
			below.Effects = bytesForBytes{below.Effects}
			return below
		}}
}

type bytesForBytes struct{ effect.Store }

func (b bytesForBytes) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	if s.Claim != nil && s.Claim.Answer == nil {
		done := *s.Claim
		done.Answer = b.processing(ctx, done.Scope, s.ID, s.Now)
		s.Claim = &done
	}
	return b.Store.Settle(ctx, s)
}

// processing is the 202 that the attempt sends.
func (b bytesForBytes) processing(ctx context.Context, scope retryproof.Scope, id retryproof.ID, now time.Time) *effect.Answer {
	seen, err := b.Look(ctx, effect.Look{Scope: scope, GuardID: id, Now: now})
	if err != nil || seen.Guard == nil {
		return nil
	}
	p := seen.Guard.Row.(payments.Payment)
	body, err := json.Marshal(map[string]any{"id": p.ID, "state": "PROCESSING", "amount": p.Amount, "currency": p.Currency,
		"order_id": p.OrderID, "merchant_id": p.MerchantID, "payment_method": p.Method})
	if err != nil {
		panic(err) // strings and an integer
	}
	return &effect.Answer{Status: http.StatusAccepted, Body: body, Header: map[string][]string{"Content-Type": {"application/json"}}}
}

// laggingReads is without primary-reads.
func laggingReads() Twin {
	return Twin{Rule: "primary-reads", Instead: "records are looked up on a replica that lags up to 3 s; only what is not there is written to the primary",
		Harms: []string{HarmContradictory},
		Stores: func(below payments.Stores) payments.Stores {
			below.Effects = &replica{Store: below.Effects, was: map[retryproof.Scope][]snapshot{}}
			return below
		}}
}

// replicaLag is how far the replica is behind.
const replicaLag = 3 * time.Second

// replica remembers what the records were. Reads see what they were a while ago.
type replica struct {
	effect.Store
	was map[retryproof.Scope][]snapshot
}

type snapshot struct {
	at   time.Time
	seen effect.Seen
}

// note copies what the primary now has.
func (r *replica) note(ctx context.Context, scope retryproof.Scope, id retryproof.ID, now time.Time) {
	if seen, err := r.Store.Look(ctx, effect.Look{Scope: scope, GuardID: id, Now: now}); err == nil {
		r.was[scope] = append(r.was[scope], snapshot{now, seen})
	}
}

// old is what a read on the replica gives.
func (r *replica) old(scope retryproof.Scope, now time.Time) effect.Seen {
	var seen effect.Seen
	for _, s := range r.was[scope] {
		if !s.at.After(now.Add(-replicaLag)) {
			seen = s.seen
		}
	}
	if seen.Claim.Expired(now) {
		return effect.Seen{}
	}
	return seen
}

func (r *replica) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	if seen := r.old(b.Scope, b.Now); seen.Claim != nil {
		return seen, nil
	}
	seen, err := r.Store.Begin(ctx, b)
	r.note(ctx, b.Scope, b.GuardID, b.Now)
	return seen, err
}

func (r *replica) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	seen, err := r.Store.Adopt(ctx, a)
	r.note(ctx, a.Scope, a.GuardID, a.Now)
	return seen, err
}

func (r *replica) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	out, err := r.Store.Settle(ctx, s)
	if out.Guard != nil {
		r.note(ctx, out.Guard.Scope, s.ID, s.Now)
	}
	return out, err
}

func (r *replica) Look(_ context.Context, l effect.Look) (effect.Seen, error) {
	return r.old(l.Scope, l.Now), nil
}
