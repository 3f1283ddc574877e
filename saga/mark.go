package saga

import (
	"context"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
)

// MarkState is what a participant knows of one action.
type MarkState string

// The states of a mark and the moves between them: STARTED → DONE → CANCELLED, and
// STARTED → CANCELLED. A cancellation that comes first inserts CANCELLED.
const (
	MarkStarted   MarkState = "STARTED"
	MarkDone      MarkState = "DONE"
	MarkCancelled MarkState = "CANCELLED"
)

// Mark is a participant's record of one action, unique by the action's key.
type Mark struct {
	// Key is the action's: Call.OriginalKey.
	Key   string
	State MarkState
	// Result is what the action returned, at most MaxResultBytes.
	Result    []byte
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Marks keeps marks in the participant's own database. Errors are as for [Store];
// both methods may be repeated with the same arguments.
type Marks interface {
	// Mark inserts m if its key is not there and returns what is there then. m's
	// CreatedAt is when; first reports whether this call inserted it. The repeat of
	// a call whose answer was lost is told false.
	Mark(ctx context.Context, m Mark) (there Mark, first bool, err error)
	// Move sets the state and result of a mark that is in the state from, and
	// UpdatedAt; it reports false when it was not.
	Move(ctx context.Context, m MarkMove) (bool, error)
}

// MarkMove is a compare-and-set of one key's mark.
type MarkMove struct {
	Key      string
	From, To MarkState
	Result   []byte
	Now      time.Time
}

// Check returns why no store can take it, as NotDone.
func (m Mark) Check() error {
	switch {
	case m.Key == "":
		return invalid("the mark has no key")
	case len(m.Result) > MaxResultBytes:
		return invalid("the result is larger than saga.MaxResultBytes")
	case m.State == MarkStarted, m.State == MarkDone, m.State == MarkCancelled:
		return nil
	}
	return invalid("the state is none of a mark's")
}

// Check returns why no store can take it, as NotDone.
func (m MarkMove) Check() error {
	allowed := m.From == MarkStarted && (m.To == MarkDone || m.To == MarkCancelled) || m.From == MarkDone && m.To == MarkCancelled
	switch {
	case m.Key == "":
		return invalid("the mark has no key")
	case len(m.Result) > MaxResultBytes:
		return invalid("the result is larger than saga.MaxResultBytes")
	case !allowed:
		return invalid("a mark does not move so")
	}
	return nil
}

// Participant keeps the contract of [Step.Cancel] for an action whose callee has no
// such memory of its own: a compensation that comes before the original leaves a
// mark, and the original that meets it is refused.
//
// Promises: the action is not run once the mark is CANCELLED; Cancel returns nil
// only when the action never ran or was undone, and then it never runs.
//
// Does not promise: that the action runs once. A try that ended without a record is
// repeated, so what the action calls must honour the key. A participant whose
// effect is rows of the same database needs no STARTED: it inserts the mark and the
// rows in one transaction.
//
// Crash points: after STARTED, the next try runs again with the same key, and a
// compensation settles it first by asking; after the undoing, before CANCELLED, the
// next try undoes again with the same key.
type Participant struct {
	marks Marks
	clock clock.Clock
}

// NewParticipant returns a participant over marks. c defaults to clock.System().
func NewParticipant(marks Marks, c clock.Clock) *Participant {
	if c == nil {
		c = clock.System()
	}
	return &Participant{marks: marks, clock: c}
}

// Do runs the action of key c.OriginalKey unless it is DONE, which returns the first
// result, or CANCELLED, which is refused forever: NotDone with CodeVoid.
func (p *Participant) Do(ctx context.Context, c Call, run func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	m, _, err := p.marks.Mark(ctx, Mark{Key: c.OriginalKey, State: MarkStarted, CreatedAt: p.clock.Now()})
	if err != nil {
		return nil, err // nothing outside was asked yet
	}
	switch m.State {
	case MarkDone:
		return m.Result, nil
	case MarkCancelled:
		return nil, retryproof.Refused(retryproof.CodeVoid, "the action was cancelled before it came", nil)
	}
	result, err := run(ctx)
	if retryproof.OutcomeOf(err) != retryproof.Done {
		return nil, err
	}
	moved, err := p.move(ctx, c.OriginalKey, MarkStarted, MarkDone, result)
	if err != nil {
		return nil, unsure(err)
	}
	if !moved { // another try was faster, or a compensation
		return p.settled(ctx, c.OriginalKey)
	}
	return result, nil
}

// settled answers a try whose mark was moved by somebody else.
func (p *Participant) settled(ctx context.Context, key string) ([]byte, error) {
	m, _, err := p.marks.Mark(ctx, Mark{Key: key, State: MarkStarted, CreatedAt: p.clock.Now()})
	if err != nil {
		return nil, unsure(err)
	}
	if m.State == MarkDone {
		return m.Result, nil
	}
	// The compensation asked for the outcome and undid it: the callee gave this
	// try what it gave that question, so nothing new stands.
	return nil, retryproof.Refused(retryproof.CodeVoid, "the action was cancelled while it ran", nil)
}

// Cancel refuses the action forever, undoing it first when it ran.
//
// When a try of it is on record without an outcome, settle finds that out: by
// running the action again with its key, or by a look-up. It returns nil or Done
// when it happened, and NotDone with a [Permanent] code only when it never did and
// the callee would not do it any more, so that a copy that is still on its way does
// nothing. Anything else leaves the compensation to be tried again.
func (p *Participant) Cancel(ctx context.Context, c Call, settle, undo func(ctx context.Context) ([]byte, error)) error {
	m, first, err := p.marks.Mark(ctx, Mark{Key: c.OriginalKey, State: MarkCancelled, CreatedAt: p.clock.Now()})
	if err != nil {
		return err
	}
	if first || m.State == MarkCancelled {
		return nil
	}
	from := m.State
	if from == MarkStarted {
		result, err := settle(ctx)
		switch {
		case retryproof.OutcomeOf(err) == retryproof.Done:
			if _, err := p.move(ctx, m.Key, MarkStarted, MarkDone, result); err != nil {
				return unsure(err)
			}
			from, m.Result = MarkDone, result
		case !Permanent(err):
			return err
		}
	}
	if from == MarkDone {
		if _, err := undo(ctx); retryproof.OutcomeOf(err) != retryproof.Done {
			return err
		}
	}
	moved, err := p.move(ctx, m.Key, from, MarkCancelled, m.Result)
	if err != nil {
		return unsure(err)
	}
	if moved {
		return nil
	}
	// Another try of this compensation was faster, or the original's owner recorded
	// DONE in between: the next try finds out which.
	return &retryproof.Error{Code: retryproof.CodeConflict, Message: "the mark was moved meanwhile"}
}

func (p *Participant) move(ctx context.Context, key string, from, to MarkState, result []byte) (bool, error) {
	if len(result) > MaxResultBytes {
		result = nil
	}
	return p.marks.Move(ctx, MarkMove{Key: key, From: from, To: to, Result: result, Now: p.clock.Now()})
}

// unsure says Unknown after an outside call, whatever the store knows of its write.
func unsure(err error) error {
	return &retryproof.Error{Code: retryproof.CodeUnknown, Message: "the mark could not be moved", Err: err}
}
