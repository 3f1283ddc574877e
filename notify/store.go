package notify

import (
	"context"
	"time"
)

// State is the state of an intent.
type State string

const (
	// Pending: recorded with the effect; it may or may not have been sent.
	Pending State = "PENDING"
	// Sent: the provider took it.
	Sent State = "SENT"
	// Refused: it is not sent any more, and Intent.Reason says why.
	Refused State = "REFUSED"
)

// Key names one intent: one event, announced on one channel.
type Key struct {
	EventID string
	Channel string
}

// Intent is the durable wish to notify somebody, inserted in the transaction of
// the effect that it announces (mission F1); inserting one that is there changes
// nothing.
type Intent struct {
	Key
	// ReplaceID is what is announced, for example the payment id: a repeat with
	// the same one takes the first one's place on the screen.
	ReplaceID string
	// To is the person.
	To    string
	Title string
	Body  string
	State State
	// Sends counts tries, as far as they were recorded: one whose process died
	// before it wrote down how the try ended is not among them.
	Sends     int
	CreatedAt time.Time
	SentAt    time.Time
	// NextAt is when a PENDING intent is due; zero until somebody has failed to send
	// it, or has claimed it.
	NextAt time.Time
	// Reason is why the last recorded try failed; empty when none did.
	Reason string
}

// Claim asks for intents that are due, and leases them.
type Claim struct {
	Channel string
	// Now is the time by which it is judged what is due: NextAt at or before it.
	Now time.Time
	// Untried makes those due that have no NextAt and were created at or before it.
	Untried time.Time
	// Until becomes NextAt of what is claimed: nobody else is given it before.
	Until time.Time
	// Limit is how many at most. 0 and less are none.
	Limit int
}

// Failure is a try that did not succeed.
type Failure struct {
	Key
	// Tried is Intent.Sends as whoever tried has read it: of two tries at once one is
	// recorded.
	Tried int
	// NextAt is when to try again.
	NextAt time.Time
	// Refused ends it: the intent is REFUSED.
	Refused bool
	// Reason says why, in UTF-8 without zero bytes.
	Reason string
}

// Store keeps intents.
type Store interface {
	// Intent reads one; nil when there is none.
	Intent(ctx context.Context, k Key) (*Intent, error)
	// MarkSent moves PENDING to SENT at now and raises Sends; false when it was
	// not PENDING.
	MarkSent(ctx context.Context, k Key, now time.Time) (bool, error)
	// Claim leases PENDING intents that are due and returns them as they were before,
	// ordered by (NextAt, or CreatedAt of those that have none; then EventID). It
	// leaves out what another claim holds at that moment.
	Claim(ctx context.Context, c Claim) ([]Intent, error)
	// Fail raises Sends of an intent that is PENDING and was tried f.Tried times, and
	// notes the reason; it is due again at NextAt, or REFUSED. False when it was not
	// so.
	Fail(ctx context.Context, f Failure) (bool, error)
}
