package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/internal/clip"
	"github.com/retryproof/retryproof/queue"
)

// ParkedKey names a message that one consumer has set aside.
type ParkedKey struct {
	// Consumer is Config.Consumer.
	Consumer string
	// ID is the message's.
	ID string
}

// Parked is a message that a consumer could not apply and has set aside, with the
// reason, for a person (mission E1: what cannot be handled does not block the rest
// forever). The message is gone from the queue; this record is where it is now.
type Parked struct {
	// Consumer is Config.Consumer.
	Consumer string
	// Message is what the queue had, whole.
	queue.Message
	// SentAt is when the queue accepted it.
	SentAt time.Time
	// Attempts counts its deliveries.
	Attempts int
	// Reason is the last error.
	Reason string
	// ParkedAt is when it was set aside.
	ParkedAt time.Time
}

// Key names the record.
func (p Parked) Key() ParkedKey { return ParkedKey{Consumer: p.Consumer, ID: p.ID} }

// Check refuses a record that no store could find again.
func (p Parked) Check() error {
	if p.Consumer == "" || p.ID == "" {
		return retryproof.Refused(retryproof.CodeInvalid, "a parked message lacks its consumer or its id", nil)
	}
	return nil
}

// ListParked asks for a page of what was set aside.
type ListParked struct {
	// Consumer narrows to one; all of them when it is empty.
	Consumer string
	// After continues behind a record: what is listed is greater than its (ParkedAt,
	// Consumer, ID). The zero Parked begins at the start.
	After Parked
	// Limit is how many at most, greater than 0.
	Limit int
}

// ParkedStore keeps messages that were set aside. A record stays until it is
// removed: no clean-up takes it.
type ParkedStore interface {
	// Park keeps a message. One that is there already, by its key, is left as it
	// is, and false is reported. One without a consumer or an ID is refused
	// with CodeInvalid.
	Park(ctx context.Context, p Parked) (bool, error)
	// Parked reads one; nil when there is none.
	Parked(ctx context.Context, k ParkedKey) (*Parked, error)
	// ListParked lists records ordered by (ParkedAt, Consumer, ID).
	ListParked(ctx context.Context, l ListParked) ([]Parked, error)
	// CountParked counts the records of a consumer, of all of them when it is empty.
	CountParked(ctx context.Context, consumer string) (int64, error)
	// Unpark removes one; false when there is none.
	Unpark(ctx context.Context, k ParkedKey) (bool, error)
}

// mustPark reports whether a message that failed is set aside: at once when the handler
// says that no try can help; else when it has failed often, and either for long, or
// while others were finished and the error says nothing of others, so that the fault is
// its own.
func (c *Consumer) mustPark(d queue.Delivery, cause error) bool {
	if c.config.Parked == nil {
		return false
	}
	var u *unhandled
	if errors.As(cause, &u) && retryproof.OutcomeOf(u) == retryproof.NotDone && retryproof.CodeOf(u) == retryproof.CodePermanent {
		return true
	}
	if d.Attempt < c.config.MaxAttempts {
		return false
	}
	if c.waits().AtLeast(d.Attempt, c.config.MaxBackoff) >= c.config.ParkAfter {
		return true
	}
	last := c.lastDone.Load()
	alive := last != 0 && c.config.Clock.Now().Sub(time.Unix(0, last)) < 2*c.config.MaxBackoff
	return alive && !ofOthers(cause)
}

// ofOthers reports whether an error speaks of others than the message: a database or a
// provider that is away may be so for one message and not for the next.
func ofOthers(err error) bool {
	switch retryproof.CodeOf(err) {
	case retryproof.CodeUnavailable, retryproof.CodeReadOnly, retryproof.CodeConflict, retryproof.CodeTooMany:
		return true
	}
	return false
}

// isParked reports whether a message that came too often to be handled once more is set
// aside already: it could not be deleted then, since its handler outlived the delivery,
// and would outlive this one too.
func (c *Consumer) isParked(ctx context.Context, d queue.Delivery) bool {
	if c.config.Parked == nil || d.Attempt <= c.config.MaxAttempts {
		return false
	}
	same, err := c.keeps(ctx, d.Message)
	return err == nil && same
}

// keeps reports whether this very message is set aside: another one may have come under
// its id, and who takes the one for the other loses it.
func (c *Consumer) keeps(ctx context.Context, m queue.Message) (bool, error) {
	p, err := c.config.Parked.Parked(ctx, ParkedKey{Consumer: c.config.Consumer, ID: m.ID})
	if err != nil || p == nil {
		return false, err
	}
	return p.Group == m.Group && p.Type == m.Type && bytes.Equal(p.Body, m.Body), nil
}

// errOtherKept: the message can be set aside when the record under its id is gone.
var errOtherKept = errors.New("another message is set aside under its id: put that one back first")

// park sets a message aside. When that fails, the message stays in the queue.
func (c *Consumer) park(ctx context.Context, d queue.Delivery, cause error) error {
	first, err := c.config.Parked.Park(ctx, Parked{
		Consumer: c.config.Consumer, Message: d.Message, SentAt: d.SentAt, Attempts: d.Attempt,
		Reason: clip.Text(cause.Error(), clip.Reason), ParkedAt: c.config.Clock.Now(),
	})
	if err == nil && !first {
		var same bool
		if same, err = c.keeps(ctx, d.Message); err == nil && !same {
			err = errOtherKept
		}
	}
	if err == nil {
		c.config.Observe(SawParked, d)
	}
	return err
}

// Redrive applies a message that was set aside, once the cause is mended, and removes
// the record: the same handler, the same inbox row, the same follow-up step as for a
// delivery. So it is safe to repeat, by two people at a time too, and it is a repeat
// that changes nothing when the message was applied in another way meanwhile. When it
// fails the record stays as it is. An error with CodeNotFound says that there is no
// such record.
func (c *Consumer) Redrive(ctx context.Context, id string) error {
	if c.config.Parked == nil {
		return fmt.Errorf("inbox: Config.Parked is not set: nothing is set aside")
	}
	key := ParkedKey{Consumer: c.config.Consumer, ID: id}
	p, err := c.config.Parked.Parked(ctx, key)
	if err != nil {
		return err
	}
	if p == nil {
		return retryproof.Refused(retryproof.CodeNotFound, "no message of this id was set aside", nil)
	}
	if err := c.apply(ctx, queue.Delivery{Message: p.Message, Attempt: p.Attempts + 1, SentAt: p.SentAt}); err != nil {
		return err
	}
	_, err = c.config.Parked.Unpark(ctx, key)
	return err
}
