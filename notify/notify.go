// Package notify sends a notification once per intent (mission F1): the intent is
// recorded in the transaction of the effect that it announces, sent after the
// commit, and marked as sent. Whoever meets a PENDING intent finishes it.
//
// Promises: an intent that is SENT is not sent again; a PENDING one is finished by
// every redelivery of its event until the provider takes it.
//
// Does not promise: one send. A crash between the send and the mark sends twice;
// the replace id makes the second copy take the first one's place.
//
// Crash points: before the send, PENDING, the redelivery sends; after the send,
// PENDING, the redelivery sends again with the same replace id; after the mark,
// SENT.
package notify

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/push"
)

// Sender is a push provider.
type Sender interface {
	// Send hands the notification to the provider; nil means it was taken.
	Send(ctx context.Context, n push.Notification) error
}

// Config sets a notifier. The zero value works.
type Config struct {
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Observe is told "sent", "skipped" and "failed", with the intent.
	// Defaults to nothing.
	Observe func(what string, i Intent)
}

// Notifier finishes intents of one channel. Safe for concurrent use.
type Notifier struct {
	store   Store
	sender  Sender
	channel string
	config  Config
}

// New returns a notifier for a channel, for example "push".
func New(store Store, channel string, sender Sender, config Config) *Notifier {
	if config.Clock == nil {
		config.Clock = clock.System()
	}
	if config.Observe == nil {
		config.Observe = func(string, Intent) {}
	}
	return &Notifier{store: store, sender: sender, channel: channel, config: config}
}

// Finish sends what the event's intent still has to send. An event without an
// intent has nothing to finish. An error leaves the intent PENDING: call again.
func (n *Notifier) Finish(ctx context.Context, eventID string) error {
	key := Key{EventID: eventID, Channel: n.channel}
	intent, err := n.store.Intent(ctx, key)
	if err != nil {
		return err
	}
	if intent == nil {
		return nil
	}
	if intent.State == Sent {
		n.config.Observe("skipped", *intent)
		return nil
	}
	err = n.sender.Send(ctx, push.Notification{To: intent.To, ReplaceID: intent.ReplaceID, Title: intent.Title, Body: intent.Body})
	if err != nil {
		n.config.Observe("failed", *intent)
		return &retryproof.Error{Outcome: retryproof.OutcomeOf(err), Code: retryproof.CodeOf(err), Err: err,
			Message: fmt.Sprintf("the notification of %s was not confirmed", eventID)}
	}
	n.config.Observe("sent", *intent)
	_, err = n.store.MarkSent(ctx, key, n.config.Clock.Now())
	return err
}
