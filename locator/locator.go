// Package locator keeps a repeat from creating again what has since been moved or
// deleted (mission D3). A condition protects only as long as the record that it stands
// on, so the condition stands on a locator: a record with a name of its own that never
// moves, beside the item, whose place may change. Deleting the item leaves the locator
// as a tombstone.
//
// Promises:
//   - Put creates an item once per name, whatever became of it since: moved, deleted,
//     or neither;
//   - Move and Delete are compare-and-sets and answer their own repeats;
//   - tombstones never expire.
//
// Does not promise: that a late copy of a Move finds what its sender saw. An item that
// came back to its old place looks the same, unless the mover names the revision that
// it saw (case 26).
//
// Crash points: before the commit nothing happened; after it a repeat is told what is
// there, and changes nothing.
package locator

import (
	"bytes"
	"context"
	"time"

	"github.com/retryproof/retryproof"
)

// MaxValueBytes is the most that Put.Value holds: a locator lives long, so it stays
// small.
const MaxValueBytes = 8 << 10

// Store keeps locators. Each method is one transaction, closed. Errors are as in
// effect.Store; a condition that does not hold is a verdict. Every method may be
// repeated with the same arguments and then changes nothing more.
type Store interface {
	// Put creates the item at p.Place if its name was never used: Created, Exists,
	// Gone or Mismatch.
	Put(ctx context.Context, p Put) (Result, error)
	// Move moves the item from m.From to m.To: Moved, There, Elsewhere, Gone or
	// Absent.
	Move(ctx context.Context, m Move) (Result, error)
	// Delete makes the locator a tombstone, wherever the item is: Deleted, Gone or
	// Absent.
	Delete(ctx context.Context, d Delete) (Result, error)
	// Look is the locator, nil when there is none.
	Look(ctx context.Context, n Name) (*Record, error)
	// List are the items at a place, ordered by id, byte by byte.
	List(ctx context.Context, l List) ([]Record, error)
}

// Name is what an item is called forever: kind "mail", owner "u1", id "m9". The id
// comes from what made the item, such as the message's own id, so that whoever makes
// it again uses the same name.
type Name struct {
	Kind  string
	Owner string
	ID    string
}

// State is the state of a locator.
type State string

const (
	// Present: the item is at Record.Place.
	Present State = "PRESENT"
	// Tombstone: it was deleted. Nothing leaves this state.
	Tombstone State = "TOMBSTONE"
)

// Record is a locator.
type Record struct {
	Name
	State State
	// Place is where the item is; empty for a tombstone.
	Place string
	// Revision is 1 when the item is created, and one more with every change.
	Revision int64
	// Fingerprint is what the item is. A tombstone keeps it.
	Fingerprint retryproof.Fingerprint
	// Value is what Put carried; nil when that was empty, and in a tombstone.
	Value     []byte
	CreatedAt time.Time
	ChangedAt time.Time
}

// Put asks for an item.
type Put struct {
	Name
	// Place is where the item is created: "Inbox".
	Place string
	// Fingerprint is what the item is. Defaults to the fingerprint of Value.
	Fingerprint retryproof.Fingerprint
	// Value is the item, or where its content lies, at most MaxValueBytes.
	Value []byte
	Now   time.Time
}

// Move asks for another place.
type Move struct {
	Name
	// From is the place that the mover saw, To another one.
	From, To string
	// Revision, when set, must be the record's, so that a late copy of the move does
	// not act again after the item came back. Defaults to any.
	Revision int64
	Now      time.Time
}

// Delete asks for a tombstone.
type Delete struct {
	Name
	Now time.Time
}

// List asks for the items at a place.
type List struct {
	Kind, Owner, Place string
	// After is the last id of the page before. Defaults to the first page.
	After string
	// Limit is how many to return at most.
	Limit int
}

// Verdict is what became of a request.
type Verdict int

const (
	// Created: this call created the item.
	Created Verdict = iota + 1
	// Exists: a Put found the item, where Record.Place says, and changed nothing.
	Exists
	// Moved: this call moved it.
	Moved
	// There: a Move found it at its goal and changed nothing.
	There
	// Elsewhere: a Move found it at a third place, or at another revision, and
	// changed nothing.
	Elsewhere
	// Deleted: this call deleted it.
	Deleted
	// Gone: there is a tombstone. Nothing changed.
	Gone
	// Absent: the name was never used. Nothing changed.
	Absent
	// Mismatch: a Put found another item of this name. Nothing changed.
	Mismatch
)

var verdicts = []string{"none", "created", "exists", "moved", "there", "elsewhere", "deleted", "gone", "absent", "mismatch"}

// String returns the verdict in lower case.
func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdicts) {
		return verdicts[0]
	}
	return verdicts[v]
}

// Result is what stands afterwards.
type Result struct {
	Verdict Verdict
	// Record is the locator now, nil when Absent.
	Record *Record
}

// Next decides about a Put that Check accepted, from the record that is there, nil for
// none.
func (p Put) Next(have *Record) Result {
	switch {
	case have == nil:
		r := Record{Name: p.Name, State: Present, Place: p.Place, Revision: 1, Fingerprint: p.Fingerprint, CreatedAt: p.Now, ChangedAt: p.Now}
		if len(p.Value) > 0 {
			r.Value = bytes.Clone(p.Value)
		}
		return Result{Created, &r}
	case have.State == Tombstone:
		return Result{Gone, have}
	case !have.Fingerprint.Same(p.Fingerprint):
		return Result{Mismatch, have}
	}
	return Result{Exists, have}
}

// Next decides about a Move that Check accepted.
func (m Move) Next(have *Record) Result {
	switch {
	case have == nil:
		return Result{Verdict: Absent}
	case have.State == Tombstone:
		return Result{Gone, have}
	case have.Place == m.To:
		return Result{There, have}
	case have.Place != m.From, m.Revision != 0 && m.Revision != have.Revision:
		return Result{Elsewhere, have}
	}
	r := *have
	r.Place, r.Revision, r.ChangedAt = m.To, have.Revision+1, m.Now
	return Result{Moved, &r}
}

// Next decides about a Delete that Check accepted.
func (d Delete) Next(have *Record) Result {
	switch {
	case have == nil:
		return Result{Verdict: Absent}
	case have.State == Tombstone:
		return Result{Gone, have}
	}
	r := *have
	r.State, r.Place, r.Value, r.Revision, r.ChangedAt = Tombstone, "", nil, have.Revision+1, d.Now
	return Result{Deleted, &r}
}

// Check fills what has a default and refuses what can never be written, NotDone with
// CodeInvalid. Drivers call it before anything else.
func (p Put) Check() (Put, error) {
	if err := p.Name.Valid(); err != nil {
		return Put{}, err
	}
	switch {
	case p.Place == "":
		return Put{}, invalid("the item has no place")
	case len(p.Value) > MaxValueBytes:
		return Put{}, invalid("the value is longer than 8 KiB")
	}
	if err := retryproof.CheckIDs("the place", p.Place); err != nil {
		return Put{}, err
	}
	if p.Fingerprint == "" {
		p.Fingerprint = retryproof.FingerprintOf(retryproof.Text("value", string(p.Value)))
	}
	if p.Fingerprint.Version() == 0 {
		return Put{}, invalid("the item's fingerprint is broken")
	}
	return p, nil
}

// Check refuses what can never be written, NotDone with CodeInvalid.
func (m Move) Check() error {
	if err := m.Name.Valid(); err != nil {
		return err
	}
	switch {
	case m.From == "" || m.To == "":
		return invalid("the move lacks a place")
	case m.From == m.To:
		return invalid("the move leads nowhere")
	case m.Revision < 0:
		return invalid("a revision is 1 or more")
	}
	return retryproof.CheckIDs("the place", m.To)
}

// Check refuses what can never be written, NotDone with CodeInvalid.
func (d Delete) Check() error { return d.Name.Valid() }

// Valid reports the first thing that is missing from the name, or too long in it.
func (n Name) Valid() error {
	switch "" {
	case n.Kind:
		return invalid("the name has no kind")
	case n.Owner:
		return invalid("the name has no owner")
	case n.ID:
		return invalid("the name has no id")
	}
	return retryproof.CheckIDs("a part of the name", n.Kind, n.Owner, n.ID)
}

func invalid(message string) error {
	return retryproof.Refused(retryproof.CodeInvalid, message, nil)
}
