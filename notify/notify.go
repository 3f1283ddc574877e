// Package notify sends a notification once per intent (mission F1): the intent is
// recorded in the transaction of the effect that it announces, sent after the
// commit, and marked as sent. Whoever meets a PENDING intent finishes it: the
// redelivery of its event, and RunOnce, a step that looks for what is left.
//
// Promises: an intent that is SENT or REFUSED is not sent again; a PENDING one is
// tried until the provider takes it, until the provider says that it never will, or
// until it has failed for Config.GiveUpAfter. A failed try holds up nobody: it is
// recorded beside the intent, and Finish is done with the message.
//
// Does not promise: one send. A crash between the send and the mark sends twice, and
// so may two processes that try at once, as a redelivery and RunOnce can; the replace
// id makes the second copy take the first one's place. It does not promise order,
// either.
//
// Crash points: before the send, PENDING, the redelivery sends; after the send,
// PENDING, the redelivery sends again with the same replace id; after the mark,
// SENT; after a failed try was recorded, PENDING with NextAt, RunOnce sends; after
// RunOnce's claim, the same once the claim's minute is over.
package notify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/internal/backoff"
	"github.com/retryproof/retryproof/internal/clip"
	"github.com/retryproof/retryproof/push"
)

// Sender is a push provider.
type Sender interface {
	// Send hands the notification to the provider; nil means it was taken. An error
	// that is NotDone with CodePermanent or CodeInvalid is about this notification or
	// this person, and no try can help. What is wrong with the provider or with our
	// account there must not look like that.
	Send(ctx context.Context, n push.Notification) error
}

// Config sets a notifier. The zero value works.
type Config struct {
	// Overdue is the age from which RunOnce takes an intent that nobody has tried:
	// longer than a redelivery takes, so that it does not send what a worker is about
	// to send. Defaults to 5 min.
	Overdue time.Duration
	// GiveUpAfter ends an intent that has failed for so long: a provider that never
	// takes it must not be asked forever. The time is told by the number of tries, as
	// the shortest that they can have taken, so that none is ended for having waited
	// while nothing ran: it ends within two GiveUpAfter. Defaults to 24 h.
	GiveUpAfter time.Duration
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Rand makes the jitter. Defaults to entropy.System().
	Rand entropy.Source
	// Observe is told "sent", "skipped" (nothing to send, or not now), "failed" and
	// "refused", once, with the intent. Defaults to nothing.
	Observe func(what string, i Intent)
}

// A batch fits its lease: batch × sendTimeout < lease, so that a claim does not end
// under a step that works on it.
const (
	batch       = 10
	sendTimeout = 5 * time.Second
	lease       = time.Minute
)

// waits are those between two tries of one intent.
var waits = backoff.Doubling{Min: 2 * time.Second, Max: 5 * time.Minute}

// A provider that has failed so often in a row is not asked by Finish for a while: one
// that does not answer would take sendTimeout of every message.
const troubled = 3

// rests are how long it is not asked.
var rests = backoff.Doubling{Min: time.Second, Max: time.Minute}

// Notifier finishes intents of one channel. Safe for concurrent use.
type Notifier struct {
	store   Store
	sender  Sender
	channel string
	config  Config

	mu sync.Mutex
	// failures in a row, of whatever intent, and until when Finish leaves what is new.
	failures  int
	restUntil time.Time
}

// New returns a notifier for a channel, for example "push".
func New(store Store, channel string, sender Sender, config Config) *Notifier {
	if config.Overdue <= 0 {
		config.Overdue = 5 * time.Minute
	}
	if config.GiveUpAfter <= 0 {
		config.GiveUpAfter = 24 * time.Hour
	}
	if config.Clock == nil {
		config.Clock = clock.System()
	}
	if config.Rand == nil {
		config.Rand = entropy.System()
	}
	if config.Observe == nil {
		config.Observe = func(string, Intent) {}
	}
	return &Notifier{store: store, sender: sender, channel: channel, config: config}
}

// Finish sends what the event's intent still has to send. An event without an
// intent has nothing to finish. Nil means that the message is done with: the
// provider took it, or the intent is left to RunOnce, as it is after a try that failed
// and while the provider is in trouble. An error means that nobody could write down
// what happened: call again.
func (n *Notifier) Finish(ctx context.Context, eventID string) error {
	intent, err := n.store.Intent(ctx, Key{EventID: eventID, Channel: n.channel})
	if err != nil || intent == nil {
		return err
	}
	if intent.State != Pending || !intent.NextAt.IsZero() || n.resting() { // one with NextAt is RunOnce's
		n.config.Observe("skipped", *intent)
		return nil
	}
	_, cause, err := n.try(ctx, *intent)
	if err != nil {
		return errors.Join(err, cause)
	}
	return nil
}

// RunOnce finishes intents of the channel that are due: those whose time for another
// try has come, and those that nobody has tried within Config.Overdue. It returns how
// many need nobody any more, and an error when a try failed. Any number of processes
// may call it: what one has claimed, no other is given for a minute.
func (n *Notifier) RunOnce(ctx context.Context) (int, error) {
	now := n.config.Clock.Now()
	until := now.Add(lease)
	due, err := n.store.Claim(ctx, Claim{Channel: n.channel, Now: now, Untried: now.Add(-n.config.Overdue), Until: until, Limit: batch})
	if err != nil {
		return 0, err
	}
	done := 0
	var errs []error
	for _, intent := range due {
		if ctx.Err() != nil || !n.config.Clock.Now().Add(sendTimeout).Before(until) {
			break // the rest is due again when the lease is over
		}
		over, cause, err := n.try(ctx, intent)
		if over {
			done++
			continue
		}
		errs = append(errs, fmt.Errorf("notify: the notification of %s: %w", intent.EventID, errors.Join(cause, err)))
	}
	return done, errors.Join(errs...)
}

// try sends an intent once and writes down how that ended: over says that the intent
// needs nobody any more, cause why the provider did not take it, and err why that could
// not be written down.
func (n *Notifier) try(ctx context.Context, i Intent) (over bool, cause, err error) {
	timed, cancel := n.config.Clock.WithTimeout(ctx, sendTimeout) // leaves the caller time to write
	cause = n.sender.Send(timed, push.Notification{To: i.To, ReplaceID: i.ReplaceID, Title: i.Title, Body: i.Body})
	cancel()
	now := n.config.Clock.Now()
	n.learn(cause, now)
	if cause == nil {
		n.config.Observe("sent", i)
		_, err = n.store.MarkSent(ctx, i.Key, now)
		return err == nil, nil, err
	}
	wait := waits.After(i.Sends + 1)
	wait = wait/2 + time.Duration(entropy.Fraction(n.config.Rand)*float64(wait/2))
	f := Failure{Key: i.Key, Tried: i.Sends, NextAt: now.Add(wait), Reason: clip.Text(cause.Error(), clip.Reason)}
	f.Refused = final(cause) || waits.AtLeast(i.Sends+1, waits.Max) >= n.config.GiveUpAfter
	recorded, err := n.store.Fail(ctx, f)
	i.Reason = f.Reason
	n.config.Observe("failed", i)
	if f.Refused && recorded && err == nil {
		n.config.Observe("refused", i)
	}
	return f.Refused && err == nil, cause, err
}

// final reports that no other try can help.
func final(err error) bool {
	code := retryproof.CodeOf(err)
	return retryproof.OutcomeOf(err) == retryproof.NotDone && (code == retryproof.CodePermanent || code == retryproof.CodeInvalid)
}

// learn counts failures in a row that are not about one person.
func (n *Notifier) learn(cause error, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cause == nil || final(cause) {
		n.failures, n.restUntil = 0, time.Time{}
		return
	}
	if n.failures++; n.failures >= troubled {
		n.restUntil = now.Add(rests.After(n.failures - troubled + 1))
	}
}

func (n *Notifier) resting() bool {
	now := n.config.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	return now.Before(n.restUntil)
}
