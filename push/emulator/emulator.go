// Package emulator is a push provider and the phones' screens, as an outside
// company would run them: for the demonstration, the simulator and tests.
//
// It promises what providers promise and no more. It takes no idempotency key:
// every accepted send alerts once. On the screen a notification with a replace id
// takes the place of the one that shows under the same id; without a replace id
// it stacks (mission F2).
//
// A crash leaves behind: before the journal's Append returns, nothing or one
// notification that the sender must count as unknown; after it, everything.
// Killing the process forgets only the fault script.
package emulator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/push"
)

// Limits on one notification, in bytes. The title and the body together stay
// below the 4096 bytes that APNs and FCM allow for a payload.
const (
	MaxToBytes        = 128
	MaxReplaceIDBytes = 256
	MaxTitleBytes     = 256
	MaxBodyBytes      = 2048
)

// Journal keeps the emulator's records over a restart.
type Journal interface {
	// Append adds a record; it is durable when Append returns nil. After an error
	// the record may or may not be there.
	Append(ctx context.Context, record []byte) error
	// Replay hands out all records in the order in which they were appended and
	// ends at the first error of its argument.
	Replay(ctx context.Context, apply func(record []byte) error) error
}

// Config sets up an emulator; the zero value works.
type Config struct {
	// Clock tells when a notification arrived and waits out delays. Defaults to
	// the machine's clock.
	Clock clock.Clock
	// Journal keeps what was sent. Defaults to nil: memory only.
	Journal Journal
}

// Shown is one notification as it shows on a screen.
type Shown struct {
	// ReplaceID is empty for a notification that stacks.
	ReplaceID string
	Title     string
	Body      string
	// At is when the text that shows arrived.
	At time.Time
	// Alerts is how often the phone made a sound for it, replacements included.
	Alerts int64
}

// Totals counts over all phones.
type Totals struct {
	// Shown is the number of notifications on the screens.
	Shown int64
	// Alerts is the number of accepted sends.
	Alerts int64
}

// Emulator is one push provider with its phones. It is safe for concurrent use,
// starts no goroutine, and holds no lock while it waits or writes.
type Emulator struct {
	clock   clock.Clock
	journal Journal

	mu      sync.Mutex
	seq     int64 // of the last send, accepted or not
	screens map[string]map[slot]*line
	totals  Totals
	faults  []Fault
}

// slot is a place on a screen: a replace id, or the send itself when it stacks.
type slot struct {
	replaceID string
	seq       int64 // 0 with a replace id
}

type line struct {
	Shown
	seq int64 // of the text that shows
}

// New returns an emulator that remembers what its journal holds. The error is
// the journal's, or Unknown when a record cannot be read.
func New(ctx context.Context, config Config) (*Emulator, error) {
	e := &Emulator{clock: config.Clock, journal: config.Journal, screens: map[string]map[slot]*line{}}
	if e.clock == nil {
		e.clock = clock.System()
	}
	if e.journal == nil {
		return e, nil
	}
	err := e.journal.Replay(ctx, func(data []byte) error {
		r, err := parseRecord(data)
		if err != nil {
			return err
		}
		e.apply(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Send accepts a notification for the phone of n.To. A refusal ([FaultRefuse], bad
// input, an ended context) is NotDone; a lost reply and a journal error are
// Unknown.
func (e *Emulator) Send(ctx context.Context, n push.Notification) error {
	if err := Validate(n); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return retryproof.Refused(retryproof.CodeUnavailable, "the context had ended before the send", context.Cause(ctx))
	}
	fault := e.takeFault(n.To)
	if fault.Delay > 0 {
		if err := e.clock.Sleep(ctx, fault.Delay); err != nil {
			return retryproof.Refused(retryproof.CodeUnavailable, "the sender left before the provider took the notification", err)
		}
	}
	if fault.Kind == FaultRefuse {
		return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeUnavailable,
			Message: "the push provider refused", Hint: "try again", RetryAfter: time.Second}
	}
	if err := e.accept(ctx, n); err != nil {
		return err
	}
	if fault.Kind == FaultLoseReply {
		return errReplyLost
	}
	return nil
}

// errReplyLost is what the sender of a notification sees whose reply was lost.
var errReplyLost = &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown, Message: "the push provider's reply was lost"}

func (e *Emulator) accept(ctx context.Context, n push.Notification) error {
	now := e.clock.Now()
	e.mu.Lock()
	e.seq++
	r := record{Version: recordVersion, Seq: e.seq, At: now, To: n.To, ReplaceID: n.ReplaceID, Title: n.Title, Body: n.Body}
	e.mu.Unlock()
	if e.journal != nil {
		if err := e.journal.Append(ctx, r.encode()); err != nil {
			return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown,
				Message: "the push provider's journal failed", Err: err}
		}
	}
	e.apply(r)
	return nil
}

// apply gives the same screen in whatever order two sends are applied, since they
// may be appended in the other order than they were numbered.
func (e *Emulator) apply(r record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq = max(e.seq, r.Seq)
	screen := e.screens[r.To]
	if screen == nil {
		screen = map[slot]*line{}
		e.screens[r.To] = screen
	}
	where := slot{replaceID: r.ReplaceID}
	if r.ReplaceID == "" {
		where.seq = r.Seq
	}
	l := screen[where]
	if l == nil {
		l = &line{}
		screen[where] = l
		e.totals.Shown++
	}
	l.Alerts++
	e.totals.Alerts++
	if r.Seq > l.seq {
		l.seq = r.Seq
		l.ReplaceID, l.Title, l.Body, l.At = r.ReplaceID, r.Title, r.Body, r.At
	}
}

// Screen returns what the phone of a person shows, newest first. The order is
// total: by the number of the send whose text shows.
func (e *Emulator) Screen(to string) []Shown {
	e.mu.Lock()
	lines := make([]line, 0, len(e.screens[to]))
	for _, l := range e.screens[to] { // order: sorted below
		lines = append(lines, *l)
	}
	e.mu.Unlock()
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(b.seq, a.seq) })
	out := make([]Shown, len(lines))
	for i, l := range lines {
		out[i] = l.Shown
	}
	return out
}

// Totals counts over all phones.
func (e *Emulator) Totals() Totals {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.totals
}

// Validate reports everything that is wrong with a notification, as one NotDone
// error with code [retryproof.CodeInvalid].
func Validate(n push.Notification) error {
	var problems []error
	text := func(name, value string, limit int, required bool) {
		switch {
		case required && value == "":
			problems = append(problems, errors.New(name+" is empty"))
		case len(value) > limit:
			problems = append(problems, errors.New(name+" is too long"))
		case !utf8.ValidString(value):
			problems = append(problems, errors.New(name+" is not UTF-8"))
		}
	}
	text("to", n.To, MaxToBytes, true)
	text("replace_id", n.ReplaceID, MaxReplaceIDBytes, false)
	text("title", n.Title, MaxTitleBytes, n.Body == "")
	text("body", n.Body, MaxBodyBytes, false)
	if len(problems) == 0 {
		return nil
	}
	return retryproof.Refused(retryproof.CodeInvalid, "the notification is invalid", errors.Join(problems...))
}
