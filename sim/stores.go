package sim

import (
	"context"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/version"
)

// stores puts a seam around every interface of the stores. The driver below is
// called with a context that never ends: a call that was sent runs to its end.
func (x *seam) stores(in payments.Stores) payments.Stores {
	s := &struct { // in one piece: a node has them for each of its lives
		effects, refunds effects
		due, dueRefunds  due
		outbox           box
		inbox            inboxes
		parkedEvents     parkedEvents
		parkedMessages   parkedMessages
		versions         versionSeam
		notify           intents
		books            books
		hops             hopSeam
		janitor          janitor
	}{
		effects{x, in.Effects, false}, effects{x, in.Refunds, true}, due{x, in.Due}, due{x, in.DueRefunds}, box{x, in.Outbox},
		inboxes{x, in.Inbox}, parkedEvents{x, in.ParkedEvents}, parkedMessages{x, in.ParkedMessages}, versionSeam{x, in.Versions}, intents{x, in.Notify}, books{x, in.Ledger, in.RefundList}, hopSeam{x, in.Hops}, janitor{x, in.Janitor},
	}
	return payments.Stores{
		Effects: &s.effects, Due: &s.due, Refunds: &s.refunds, DueRefunds: &s.dueRefunds, Outbox: &s.outbox, Inbox: &s.inbox,
		ParkedEvents: &s.parkedEvents, ParkedMessages: &s.parkedMessages,
		Versions: &s.versions, Notify: &s.notify, Ledger: &s.books, RefundList: &s.books, Hops: &s.hops, Janitor: &s.janitor,
	}
}

var background = context.Background()

type effects struct {
	x  *seam
	in effect.Store
	// refunds says that it is the store of refunds.
	refunds bool
}

func (e effects) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	return reach(e.x, ctx, "store", "begin", string(b.GuardID), e, b, func(e effects, b effect.Begin) (effect.Seen, error) {
		seen, err := e.in.Begin(background, b)
		if e.saw(seen, err); err == nil && b.Void && seen.Guard != nil && seen.Guard.State == effect.Void {
			a := e.x.w.audit
			a.becomes(a.factsOf(seen.Guard, e.refunds), effect.Void)
		}
		return seen, err
	})
}

// saw notes what became of a guard.
func (e effects) saw(seen effect.Seen, err error) {
	if a := e.x.w.audit; err == nil && seen.Guard != nil {
		a.guarded(a.factsOf(seen.Guard, e.refunds), seen.Guard)
	}
}

func (e effects) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	return reach(e.x, ctx, "store", "adopt", string(a.GuardID), e, a, func(e effects, a effect.Adopt) (effect.Seen, error) {
		seen, err := e.in.Adopt(background, a)
		e.saw(seen, err)
		return seen, err
	})
}

func (e effects) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	return reach(e.x, ctx, "store", settling(s.To), string(s.ID), e, s, func(e effects, s effect.Settle) (effect.Settled, error) {
		out, err := e.in.Settle(background, s)
		if err == nil && out.Guard != nil {
			a := e.x.w.audit
			a.settled(a.factsOf(out.Guard, e.refunds), s, out)
		}
		return out, err
	})
}

// settling names a settlement in the trace.
func settling(to effect.State) string {
	switch to {
	case effect.Succeeded:
		return "settle SUCCEEDED"
	case effect.Unknown:
		return "settle UNKNOWN"
	}
	return "settle " + string(to)
}

func (e effects) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	return reach(e.x, ctx, "store", "complete", "", e, c, func(e effects, c effect.Completion) (bool, error) { return e.in.Complete(background, c) })
}

func (e effects) Release(ctx context.Context, r effect.Release) (bool, error) {
	return reach(e.x, ctx, "store", "release", string(r.GuardID), e, r, func(e effects, r effect.Release) (bool, error) {
		gone, err := e.in.Release(background, r)
		if err == nil && gone {
			e.x.w.audit.released(string(r.GuardID))
		}
		return gone, err
	})
}

func (e effects) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	return reach(e.x, ctx, "store", "look", string(l.GuardID), e, l, func(e effects, l effect.Look) (effect.Seen, error) { return e.in.Look(background, l) })
}

type due struct {
	x  *seam
	in resolve.Store
}

func (d due) Due(ctx context.Context, q resolve.Due) ([]effect.Guard, error) {
	return reach(d.x, ctx, "store", "due", "", d, q, func(d due, q resolve.Due) ([]effect.Guard, error) { return d.in.Due(background, q) })
}

func (d due) Evidence(ctx context.Context, id retryproof.ID) ([]effect.Evidence, error) {
	return reach(d.x, ctx, "store", "evidence", string(id), d, id, func(d due, id retryproof.ID) ([]effect.Evidence, error) { return d.in.Evidence(background, id) })
}

type box struct {
	x  *seam
	in outbox.Store
}

func (b box) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Row, error) {
	return reach(b.x, ctx, "store", "outbox claim", "", b, c, func(b box, c outbox.Claim) ([]outbox.Row, error) {
		got, err := b.in.Claim(background, c)
		b.x.w.claimed(c, got)
		return got, err
	})
}

func (b box) Delete(ctx context.Context, relay string, eventIDs []string) ([]string, error) {
	return call(b.x, ctx, "store", "outbox delete", strings.Join(eventIDs, " "), func() ([]string, error) {
		deleted, err := b.in.Delete(background, relay, eventIDs)
		if err == nil {
			for _, id := range deleted {
				b.x.w.gone(id)
			}
		}
		return deleted, err
	})
}

func (b box) Defer(ctx context.Context, d outbox.Defer) (bool, error) {
	return reach(b.x, ctx, "store", "outbox defer", d.EventID, b, d, func(b box, d outbox.Defer) (bool, error) {
		deferred, err := b.in.Defer(background, d)
		if err == nil && deferred {
			b.x.w.free(d.EventID, d.NextAt)
		}
		return deferred, err
	})
}

func (b box) Park(ctx context.Context, p outbox.Park) (bool, error) {
	return reach(b.x, ctx, "store", "outbox park", p.EventID, b, p, func(b box, p outbox.Park) (bool, error) {
		parked, err := b.in.Park(background, p)
		if err == nil && parked {
			b.x.w.gone(p.EventID)
		}
		return parked, err
	})
}

func (b box) Redrive(ctx context.Context, r outbox.Redrive) (bool, error) {
	return reach(b.x, ctx, "store", "outbox redrive", r.EventID, b, r, func(b box, r outbox.Redrive) (bool, error) { return b.in.Redrive(background, r) })
}

func (b box) Stats(ctx context.Context) (outbox.Stats, error) {
	return call(b.x, ctx, "store", "outbox stats", "", func() (outbox.Stats, error) { return b.in.Stats(background) })
}

type inboxes struct {
	x  *seam
	in inbox.Store
}

func (i inboxes) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	return reach(i.x, ctx, "store", "inbox apply", a.Key.EventID, i, a, func(i inboxes, a inbox.Apply) (bool, error) {
		first, err := i.in.Apply(background, a)
		if err == nil {
			i.x.w.audit.applied(a, first)
		}
		if err == nil && first {
			i.x.w.intended(a.Intents)
		}
		return first, err
	})
}

func (i inboxes) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	return call(i.x, ctx, "store", "inbox forget", "", func() (int, error) { return i.in.Forget(background, before, limit) })
}

type intents struct {
	x  *seam
	in notify.Store
}

func (i intents) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	return reach(i.x, ctx, "store", "intent", k.EventID, i, k, func(i intents, k notify.Key) (*notify.Intent, error) { return i.in.Intent(background, k) })
}

func (i intents) MarkSent(ctx context.Context, k notify.Key, now time.Time) (bool, error) {
	return call(i.x, ctx, "store", "mark sent", k.EventID, func() (bool, error) {
		moved, err := i.in.MarkSent(background, k, now)
		if err == nil {
			i.x.w.audit.marked(k)
			i.x.w.announced(k)
		}
		return moved, err
	})
}

func (i intents) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	return reach(i.x, ctx, "store", "claim notifications", c.Channel, i, c, func(i intents, c notify.Claim) ([]notify.Intent, error) {
		got, err := i.in.Claim(background, c)
		i.x.w.counts.LateNotices += len(got)
		for _, in := range got {
			i.x.w.postponed(in.Key, c.Until)
		}
		return got, err
	})
}

func (i intents) Fail(ctx context.Context, f notify.Failure) (bool, error) {
	return reach(i.x, ctx, "store", "note failed push", f.EventID, i, f, func(i intents, f notify.Failure) (bool, error) {
		noted, err := i.in.Fail(background, f)
		switch {
		case err != nil || !noted:
		case f.Refused:
			i.x.w.announced(f.Key)
		default:
			i.x.w.postponed(f.Key, f.NextAt)
		}
		return noted, err
	})
}

type books struct {
	x    *seam
	in   payments.Ledger
	list payments.RefundList
}

func (b books) Payment(ctx context.Context, id retryproof.ID) (payments.Payment, error) {
	return reach(b.x, ctx, "store", "payment", string(id), b, id, func(b books, id retryproof.ID) (payments.Payment, error) { return b.in.Payment(background, id) })
}

func (b books) Balance(ctx context.Context, account, currency string) (int64, error) {
	return call(b.x, ctx, "store", "balance", account, func() (int64, error) { return b.in.Balance(background, account, currency) })
}

func (b books) Payments(ctx context.Context, q payments.Query) ([]payments.Payment, error) {
	return reach(b.x, ctx, "store", "payments", q.OrderID, b, q, func(b books, q payments.Query) ([]payments.Payment, error) { return b.in.Payments(background, q) })
}

func (b books) Refunds(ctx context.Context, id retryproof.ID) ([]payments.Refund, error) {
	return reach(b.x, ctx, "store", "refunds", string(id), b, id, func(b books, id retryproof.ID) ([]payments.Refund, error) { return b.in.Refunds(background, id) })
}

func (b books) RefundsBetween(ctx context.Context, from, to time.Time, after payments.Refund, limit int) ([]payments.Refund, error) {
	return call(b.x, ctx, "store", "refunds between", "", func() ([]payments.Refund, error) {
		return b.list.RefundsBetween(background, from, to, after, limit)
	})
}

func (b books) Post(ctx context.Context, p []ledger.Posting, now time.Time) error {
	_, err := call(b.x, ctx, "store", "post", "", func() (struct{}, error) { return struct{}{}, b.in.Post(background, p, now) })
	return err
}

func (b books) Audit(ctx context.Context) (payments.Audit, error) {
	return call(b.x, ctx, "store", "audit", "", func() (payments.Audit, error) { return b.in.Audit(background) })
}

type hopSeam struct {
	x  *seam
	in payments.Hops
}

func (h hopSeam) AddSightings(ctx context.Context, s []payments.Sighting) error {
	_, err := call(h.x, ctx, "store", "sightings", "", func() (struct{}, error) { return struct{}{}, h.in.AddSightings(background, s) })
	return err
}

func (h hopSeam) Sightings(ctx context.Context, id retryproof.ID) ([]payments.Sighting, error) {
	return reach(h.x, ctx, "store", "sightings", string(id), h, id, func(h hopSeam, id retryproof.ID) ([]payments.Sighting, error) { return h.in.Sightings(background, id) })
}

type janitor struct {
	x  *seam
	in payments.Janitor
}

func (j janitor) ForgetClaims(ctx context.Context, now, abandoned time.Time, limit int) (int, error) {
	return call(j.x, ctx, "store", "forget claims", "", func() (int, error) { return j.in.ForgetClaims(background, now, abandoned, limit) })
}

type versionSeam struct {
	x  *seam
	in version.Store
}

func (v versionSeam) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	return reach(v.x, ctx, "store", "version", w.Action, v, w, func(v versionSeam, w version.Write) (version.Result, error) { return v.in.Apply(background, w) })
}

func (v versionSeam) Last(ctx context.Context, l version.Line) (*version.Mark, error) {
	return reach(v.x, ctx, "store", "last version", l.Device, v, l, func(v versionSeam, l version.Line) (*version.Mark, error) { return v.in.Last(background, l) })
}

func (v versionSeam) Recent(ctx context.Context, l version.Line, after version.Mark, limit int) ([]version.Mark, error) {
	return call(v.x, ctx, "store", "recent versions", l.Device, func() ([]version.Mark, error) { return v.in.Recent(background, l, after, limit) })
}

func (v versionSeam) Look(ctx context.Context, l version.Line, subject string) (*version.Mark, error) {
	return call(v.x, ctx, "store", "look version", subject, func() (*version.Mark, error) { return v.in.Look(background, l, subject) })
}
