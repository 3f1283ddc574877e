package story

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/sim"
)

// forgetful is a design without a durable guard: a claim that is absent or expired
// makes a payment with a new, random id, and the processor's key is made of it.
func forgetful() sim.Twin {
	current := map[retryproof.Scope]round{}
	return sim.Twin{Rule: "guard", Instead: "random payment ids", Deps: func(_ *sim.World, _ *sim.Process, d payments.Deps) payments.Deps {
		d.Store.Effects = forgetfulEffects{d.Store.Effects, current, d.Rand}
		d.PSP = ownKey{d.PSP}
		return d
	}}
}

// round is what a scope's claim made: the payment with the id in place of the derived one.
// In this design nothing forbids a second payment of a scope. The store below does, so
// that the second one is kept there in a scope of its own.
type round struct {
	derived, id retryproof.ID
	scope       retryproof.Scope
}

type forgetfulEffects struct {
	effect.Store
	current map[retryproof.Scope]round // by the scope that was asked for
	rand    entropy.Source
}

func (f forgetfulEffects) scope(s retryproof.Scope) retryproof.Scope {
	if r, ok := f.current[s]; ok {
		return r.scope
	}
	return s
}

func (f forgetfulEffects) id(derived retryproof.ID) retryproof.ID {
	for _, r := range f.current { // order: at most one has the derived id
		if r.derived == derived {
			return r.id
		}
	}
	return derived
}

// asked gives records the scope that was asked for.
func asked(seen effect.Seen, s retryproof.Scope) effect.Seen {
	if seen.Claim != nil {
		seen.Claim.Scope = s
	}
	if seen.Guard != nil {
		seen.Guard.Scope = s
	}
	return seen
}

func (f forgetfulEffects) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	s, derived := b.Scope, b.GuardID
	seen, err := f.Store.Look(ctx, effect.Look{Scope: f.scope(s), GuardID: f.id(derived), Now: b.Now})
	if err != nil {
		return seen, err
	}
	if seen.Claim == nil {
		r := round{derived, retryproof.ID("pay_" + entropy.Token(f.rand)), s}
		if _, again := f.current[s]; again {
			r.scope.Endpoint += " " + string(r.id)
		}
		f.current[s] = r
	}
	b.Scope, b.GuardID = f.scope(s), f.id(derived)
	if p, ok := b.Row.(payments.Payment); ok {
		p.ID = b.GuardID
		b.Row = p
	}
	seen, err = f.Store.Begin(ctx, b)
	return asked(seen, s), err
}

func (f forgetfulEffects) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	s.ID = f.id(s.ID)
	if s.Claim != nil {
		done := *s.Claim
		done.Scope = f.scope(done.Scope)
		s.Claim = &done
	}
	return f.Store.Settle(ctx, s)
}

func (f forgetfulEffects) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	c.Scope = f.scope(c.Scope)
	return f.Store.Complete(ctx, c)
}

func (f forgetfulEffects) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	s := l.Scope
	l.Scope, l.GuardID = f.scope(s), f.id(l.GuardID)
	seen, err := f.Store.Look(ctx, l)
	return asked(seen, s), err
}

// ownKey names the charge after the payment that is charged.
type ownKey struct{ payments.PSP }

func (o ownKey) Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error) {
	r.Key = r.Reference + ":charge"
	return o.PSP.Charge(ctx, r)
}

// slowRow lets time pass between a request's claim and its row, as it may between
// two databases.
type slowRow struct {
	effect.Store
	st    *stage
	clock clock.Clock
}

func (s slowRow) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	if b.Void {
		return s.Store.Begin(ctx, b)
	}
	tag := s.st.tag()
	s.st.owners[b.Owner] = tag
	guards := &slowGuards{Guards: s.st.store.PaymentGuards(), s: s, tag: tag}
	seen, err := effect.Split(s.st.store.Keys(), guards).Begin(ctx, b)
	if err != nil {
		return seen, err
	}
	if !guards.told {
		s.st.sawClaim(tag, b, seen)
	}
	s.st.sawRow(tag, b, seen)
	return seen, nil
}

type slowGuards struct {
	effect.Guards
	s    slowRow
	tag  string
	told bool
}

func (g *slowGuards) RecordGuard(ctx context.Context, b effect.Begin) (*effect.Guard, error) {
	st := g.s.st
	c, err := st.store.Keys().LookKey(background, effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now})
	st.note(err)
	g.told = true
	st.sawClaim(g.tag, b, effect.Seen{Claim: c})
	if err := g.s.clock.Sleep(ctx, st.p.RowAfter); err != nil {
		return nil, err
	}
	return g.Guards.RecordGuard(ctx, b)
}

// sendTwin changes what the relay sends; n counts its sends, over restarts.
func sendTwin(rule, instead string, change func(m queue.Message, n int) queue.Message) sim.Twin {
	n := 0
	return sim.Twin{Rule: rule, Instead: instead, Deps: func(_ *sim.World, _ *sim.Process, d payments.Deps) payments.Deps {
		d.Queue = changedSends{d.Queue, change, &n}
		return d
	}}
}

type changedSends struct {
	queue.Queue
	change func(queue.Message, int) queue.Message
	n      *int
}

func (c changedSends) Send(ctx context.Context, m queue.Message) error {
	*c.n++
	return c.Queue.Send(ctx, c.change(m, *c.n))
}

// countedBody puts the number of the attempt into the event's body.
func countedBody() sim.Twin {
	return sendTwin("content-dedup", "the body carries an attempt count", func(m queue.Message, n int) queue.Message {
		var body map[string]any
		if err := json.Unmarshal(m.Body, &body); err != nil {
			panic(err) // our own event
		}
		body["attempt"] = n
		b, err := json.Marshal(body)
		if err != nil {
			panic(err) // what was just decoded
		}
		m.Body = b
		return m
	})
}

// changedGroup sends every repeat in another group.
func changedGroup() sim.Twin {
	return sendTwin("group-change", "a repeat names another group", func(m queue.Message, n int) queue.Message {
		if n > 1 {
			m.Group = fmt.Sprintf("%s, try %d", m.Group, n)
		}
		return m
	})
}

// unrecorded is a worker without a record of its notifications: it pushes on every
// delivery. Without replace, it gives no replace id either.
func unrecorded(replace bool) sim.Twin {
	known := map[string]notify.Intent{} // made of the message, every time again
	return sim.Twin{Rule: "intent-record", Instead: "a push on every delivery", Deps: func(_ *sim.World, _ *sim.Process, d payments.Deps) payments.Deps {
		d.Store.Inbox = withoutIntents{d.Store.Inbox, known}
		d.Store.Notify = alwaysPending{d.Store.Notify, known, replace}
		return d
	}}
}

type withoutIntents struct {
	inbox.Store
	known map[string]notify.Intent
}

func (w withoutIntents) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	for _, i := range a.Intents {
		w.known[i.EventID] = i
	}
	a.Intents = nil
	return w.Store.Apply(ctx, a)
}

type alwaysPending struct {
	notify.Store
	known   map[string]notify.Intent
	replace bool
}

func (a alwaysPending) Intent(_ context.Context, k notify.Key) (*notify.Intent, error) {
	i := a.known[k.EventID]
	if !a.replace {
		i.ReplaceID = ""
	}
	return &i, nil
}

func (alwaysPending) MarkSent(context.Context, notify.Key, time.Time) (bool, error) { return true, nil }

// onlyAcknowledges is a worker for which a message that was applied is done: a
// repeat finishes nothing, and no loop looks for what is left.
func onlyAcknowledges() sim.Twin {
	return sim.Twin{Rule: "finish-unfinished", Instead: "a duplicate is only acknowledged", Deps: func(_ *sim.World, _ *sim.Process, d payments.Deps) payments.Deps {
		first := false
		d.Store.Inbox = remembersFirst{d.Store.Inbox, &first}
		d.Store.Notify = firstOnly{d.Store.Notify, &first}
		return d
	}}
}

type remembersFirst struct {
	inbox.Store
	first *bool
}

func (r remembersFirst) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	first, err := r.Store.Apply(ctx, a)
	*r.first = first && err == nil
	return first, err
}

type firstOnly struct {
	notify.Store
	first *bool
}

func (f firstOnly) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	if !*f.first {
		return nil, nil // nothing to finish
	}
	return f.Store.Intent(ctx, k)
}

func (firstOnly) Claim(context.Context, notify.Claim) ([]notify.Intent, error) { return nil, nil }
