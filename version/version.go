// Package version keeps late copies from undoing newer actions (mission D2): a
// device numbers its actions with one counter, and the server compares that number
// when it writes. Repeats are harmless by their shape; this package adds order.
//
// Promises:
//   - a write is applied only when its version is higher than the last one that was
//     applied to its subject, in one transaction, as a compare-and-set;
//   - a copy of the last write is answered with what was recorded of it, an older one
//     with what stands now, and neither changes anything;
//   - one version with two meanings is refused;
//   - the high-water marks never expire, and [Store].Last tells an app that lost its
//     journal what the server accepted last (mission C6); where an action can come to
//     nothing after its mark, [Store].Recent leads back to one that did not.
//
// Does not promise: order between two devices, since each counts for itself; the own
// outcome of a copy that is older than the last write. Whoever needs that keeps the
// outcome under the action's key: an effect's guard answers for the action, the
// version decides whether it is applied, and both commit together (case 26).
//
// Never order by a time that a device made: users, carriers and time daemons set
// those clocks, and they jump. Times are kept here for people and compared nowhere.
//
// Crash points: before the commit nothing happened and the action is sent again with
// its version; after it a copy is a repeat. A device that dies between taking a number
// and using it leaves a gap, and gaps mean nothing.
package version

import (
	"bytes"
	"context"
	"time"

	"github.com/retryproof/retryproof"
)

// MaxValueBytes is the most that Write.Value holds: a mark lives forever, so it
// stays small.
const MaxValueBytes = 8 << 10

// Store keeps the high-water marks. Each method is one transaction, closed: it
// carries all it needs.
//
// Errors are as in effect.Store: NotDone means that nothing was written, anything
// else is Unknown. After a lost answer the same write is sent again: it is then a
// Repeat, which says that the first one landed.
type Store interface {
	// Apply writes w if its version is higher than its subject's mark, and says what
	// stands now; see Write and Result.
	Apply(ctx context.Context, w Write) (Result, error)
	// Last is the mark with the highest version of the line, nil when the line has
	// none: the last action of the device that was accepted. Should a broken device
	// have used one version for two subjects, the greater subject is last.
	Last(ctx context.Context, l Line) (*Mark, error)
	// Recent lists the line's marks from the highest (Version, Subject) down: those that
	// are lower than after's, the last one of the page before; the zero Mark begins at
	// the top. Of a subject there is only its mark, so whoever needs every action back
	// gives each a subject of its own. Limit is how many to return at most.
	Recent(ctx context.Context, l Line, after Mark, limit int) ([]Mark, error)
	// Look is the subject's mark, nil when there is none.
	Look(ctx context.Context, l Line, subject string) (*Mark, error)
}

// Line names one counter.
type Line struct {
	// Stream is the kind of action that the counter numbers: "likes".
	Stream string
	// Caller is the authenticated caller, never something a request claims.
	Caller string
	// Device is who counts: an installation of the app, or the source of a stream of
	// events. Two that count must have two names.
	Device string
}

// Write is one action of a device. The caller's part of it comes from the program:
// Value is what the action leads to, whole, and never a change to what is there.
type Write struct {
	Line
	// Subject is what the action is about. Actions on two subjects do not overtake
	// each other, although one counter numbers both. Empty is a subject as well: when
	// all writes of a line have it, every older action is stale.
	Subject string
	// Version is the counter's number, 1 or more.
	Version int64
	// Action is the action's id, such as an effect's. It is not a secret.
	Action string
	// Fingerprint is what the action means. Defaults to the fingerprint of Value.
	Fingerprint retryproof.Fingerprint
	// Value is the state that the action sets, or the outcome to remember, at most
	// MaxValueBytes.
	Value []byte
	// Now is kept with the mark and compared with nothing.
	Now time.Time
}

// Mark is a high-water mark: the write with the highest version that was applied to
// a subject.
type Mark struct {
	Line
	Subject     string
	Version     int64
	Action      string
	Fingerprint retryproof.Fingerprint
	// Value is what the write carried; nil when that was empty.
	Value []byte
	// At is the write's Now.
	At time.Time
}

// Verdict is what became of a write.
type Verdict int

const (
	// Applied: this call wrote it.
	Applied Verdict = iota + 1
	// Repeat: it is the last write, and was there. Its outcome is Result.Mark.
	Repeat
	// Stale: a later write was applied, and nothing changed. Result.Mark is that one.
	Stale
	// Mismatch: the version is that of the last write, and that one meant something
	// else. Nothing changed. The device counts wrongly: see [Counter].Restore.
	Mismatch
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Applied:
		return "applied"
	case Repeat:
		return "repeat"
	case Stale:
		return "stale"
	case Mismatch:
		return "mismatch"
	}
	return "none"
}

// Result is what stands after Apply.
type Result struct {
	Verdict Verdict
	// Mark is the subject's mark now.
	Mark Mark
}

// Next decides about a write that [Check] accepted, from the subject's mark, nil when
// there is none. Drivers that write on a condition call it for the verdict.
func Next(have *Mark, w Write) Result {
	switch {
	case have == nil || have.Version < w.Version:
		return Result{Applied, w.mark()}
	case have.Version > w.Version:
		return Result{Stale, *have}
	case have.Action == w.Action && have.Fingerprint.Same(w.Fingerprint):
		return Result{Repeat, *have}
	}
	return Result{Mismatch, *have}
}

func (w Write) mark() Mark {
	m := Mark{Line: w.Line, Subject: w.Subject, Version: w.Version, Action: w.Action, Fingerprint: w.Fingerprint, At: w.Now}
	if len(w.Value) > 0 {
		m.Value = bytes.Clone(w.Value)
	}
	return m
}

// Check fills what has a default and refuses what can never be written, NotDone with
// CodeInvalid. Drivers call it before anything else.
func Check(w Write) (Write, error) {
	if err := w.Line.Valid(); err != nil {
		return Write{}, err
	}
	switch {
	case w.Version < 1:
		return Write{}, invalid("a version is 1 or more: it comes from a counter")
	case w.Action == "":
		return Write{}, invalid("the write has no action")
	case len(w.Value) > MaxValueBytes:
		return Write{}, invalid("the value is longer than 8 KiB")
	}
	if err := retryproof.CheckIDs("the subject", w.Subject); err != nil {
		return Write{}, err
	}
	if w.Fingerprint == "" {
		w.Fingerprint = retryproof.FingerprintOf(retryproof.Text("value", string(w.Value)))
	}
	if w.Fingerprint.Version() == 0 {
		return Write{}, invalid("the write's fingerprint is broken")
	}
	return w, nil
}

// Valid reports the first thing that is missing from the line, or too long in it.
func (l Line) Valid() error {
	switch "" {
	case l.Stream:
		return invalid("the line has no stream")
	case l.Caller:
		return invalid("the line has no caller")
	case l.Device:
		return invalid("the line has no device")
	}
	return retryproof.CheckIDs("a part of the line", l.Stream, l.Caller, l.Device)
}

func invalid(message string) error {
	return retryproof.Refused(retryproof.CodeInvalid, message, nil)
}
