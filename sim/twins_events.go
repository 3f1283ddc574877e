package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/push"
	"github.com/retryproof/retryproof/queue"
)

// publishBeside is without outbox-in-tx.
func publishBeside() Twin {
	return Twin{Rule: "outbox-in-tx", Instead: "the event is sent to the queue after the transaction, by whoever committed it", Harms: []string{HarmLostEvent},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.Store.Effects = publishing{d.Store.Effects, d.Queue}
			return d
		}}
}

type publishing struct {
	effect.Store
	queue queue.Queue
}

func (p publishing) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	events := s.Events
	s.Events = nil
	out, err := p.Store.Settle(ctx, s)
	if err == nil && out.Moved {
		for _, e := range events {
			// An error is logged; the payment is committed.
			_ = p.queue.Send(ctx, queue.Message{ID: e.ID, Group: e.Group, Type: e.Type, Body: e.Body})
		}
	}
	return out, err
}

// idPerSend is without stored-event-id. The consumer knows a message by its id, as
// before; only that id now says which send it was.
func idPerSend() Twin {
	return Twin{Rule: "stored-event-id", Instead: "the relay makes an id for every send, and the inbox keys on it", Harms: []string{HarmDoubleCredit},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			n := &namedBySend{Queue: d.Queue, rand: d.Rand}
			d.Queue = n
			d.Store.Inbox = byMessage{d.Store.Inbox, func(inbox.Apply) string { return n.message }}
			return d
		}}
}

// namedBySend gives every send an id of its own. A worker handles one message at a
// time; message is its id.
type namedBySend struct {
	queue.Queue
	rand    entropy.Source
	message string
}

func (n *namedBySend) Send(ctx context.Context, m queue.Message) error {
	m.ID += ":" + entropy.Token(n.rand)
	return n.Queue.Send(ctx, m)
}

func (n *namedBySend) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	got, err := n.Queue.Receive(ctx, limit)
	for i := range got {
		n.message = got[i].ID
		got[i].ID = n.message[:strings.LastIndexByte(n.message, ':')] // what the body is about
	}
	return got, err
}

// byMessage is a consumer that knows a message under another name.
type byMessage struct {
	inbox.Store
	name func(inbox.Apply) string
}

func (b byMessage) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	if len(a.Postings) == 0 { // the webhooks' inbox
		return b.Store.Apply(ctx, a)
	}
	return b.Store.Apply(ctx, named(a, b.name(a)))
}

// named is an effect under another message id, with its entry.
func named(a inbox.Apply, message string) inbox.Apply {
	a.Key.EventID = message
	a.Postings = slices.Clone(a.Postings)
	for i := range a.Postings {
		a.Postings[i].Ref = message
	}
	return a
}

// deleteWhenSendReturns is without ack-before-delete.
func deleteWhenSendReturns() Twin {
	return Twin{Rule: "ack-before-delete", Instead: "the outbox row is deleted when the send returns, whatever it returned", Harms: []string{HarmLostEvent},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.Queue = fireAndForget{d.Queue}
			return d
		}}
}

type fireAndForget struct{ queue.Queue }

func (f fireAndForget) Send(ctx context.Context, m queue.Message) error {
	_ = f.Queue.Send(ctx, m)
	return nil
}

// noInbox is without inbox.
func noInbox() Twin {
	return Twin{Rule: "inbox", Instead: "every delivery of an event credits the merchant", Harms: []string{HarmDoubleCredit},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			fresh := d.Rand
			d.Store.Inbox = byMessage{d.Store.Inbox, func(a inbox.Apply) string { return a.Key.EventID + ":" + entropy.Token(fresh) }}
			return d
		}}
}

// markedApart is without inbox-in-tx.
func markedApart() Twin {
	return Twin{Rule: "inbox-in-tx", Instead: "the message is marked as seen in a transaction of its own, before the credit", Harms: []string{HarmLostEffect, HarmMissingNotice},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.Store.Inbox = apart{d.Store.Inbox}
			return d
		}}
}

type apart struct{ inbox.Store }

func (s apart) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	if len(a.Postings) == 0 {
		return s.Store.Apply(ctx, a)
	}
	first, err := s.Store.Apply(ctx, inbox.Apply{Key: a.Key, Now: a.Now})
	if err != nil || !first {
		return false, err
	}
	a.Key.Consumer += "-effect"
	return s.Store.Apply(ctx, a)
}

// onlyAcknowledged is without finish-unfinished.
func onlyAcknowledged() Twin {
	return Twin{Rule: "finish-unfinished", Instead: "a message that was seen before is deleted and nothing else, and nobody looks for notifications that are due", Harms: []string{HarmMissingNotice},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			s := &sawBefore{Store: d.Store.Inbox, repeats: map[string]bool{}}
			d.Store.Inbox, d.Store.Notify = s, unfinished{d.Store.Notify, s}
			return d
		}}
}

// sawBefore remembers which messages of this worker were repeats.
type sawBefore struct {
	inbox.Store
	repeats map[string]bool
}

func (s *sawBefore) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	first, err := s.Store.Apply(ctx, a)
	if err == nil {
		s.repeats[a.Key.EventID] = !first
	}
	return first, err
}

type unfinished struct {
	notify.Store
	s *sawBefore
}

func (u unfinished) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	if u.s.repeats[k.EventID] {
		return nil, nil // nothing to finish
	}
	return u.Store.Intent(ctx, k)
}

func (unfinished) Claim(context.Context, notify.Claim) ([]notify.Intent, error) { return nil, nil }

// pushEveryDelivery is without intent-record.
func pushEveryDelivery() Twin {
	return Twin{Rule: "intent-record", Instead: "every delivery of an event pushes; nobody remembers that it was sent", Harms: []string{HarmStacked},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.Store.Notify = forgetful{d.Store.Notify}
			return d
		}}
}

type forgetful struct{ notify.Store }

func (f forgetful) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	in, err := f.Store.Intent(ctx, k)
	if in != nil {
		in.State, in.NextAt = notify.Pending, time.Time{}
	}
	return in, err
}

// noReplaceID is without replace-id.
func noReplaceID() Twin {
	return Twin{Rule: "replace-id", Instead: "a push has no replace id", Harms: []string{HarmStacked},
		Deps: func(_ *World, _ *Process, d payments.Deps) payments.Deps {
			d.Push = stacking{d.Push}
			return d
		}}
}

type stacking struct{ notify.Sender }

func (s stacking) Send(ctx context.Context, n push.Notification) error {
	n.ReplaceID = ""
	return s.Sender.Send(ctx, n)
}
