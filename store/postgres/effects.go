package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/store/internal/record"
)

// effects are claims and one table of guards.
type effects struct {
	s *Store
	t *guardTable
}

var (
	_ effect.Store  = effects{}
	_ effect.Keys   = effects{}
	_ effect.Guards = effects{}
	_ resolve.Store = effects{}
)

// errMoving is a record that came and went while it was read.
var errMoving = &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeConflict, Message: "the record kept changing"}

// Begin is one statement. What a concurrent winner committed after the statement began
// is not visible to it, so it is read again rather than taken for absent. A guard that is
// still absent then has another one of its scope in its way, or came and went.
func (e effects) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	if err := record.CheckBegin(b); err != nil {
		return effect.Seen{}, err
	}
	args, err := e.t.beginArgs(b)
	if err != nil {
		return effect.Seen{}, err
	}
	look := effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now}
	for range 3 {
		seen, may, err := e.begin(ctx, b, args)
		if err != nil && !overtaken(err) {
			return effect.Seen{}, err
		}
		if record.Decided(b, seen) {
			return seen, nil
		}
		if seen, err = e.Look(ctx, look); err != nil || record.Decided(b, seen) {
			return seen, err
		}
		if seen.Guard != nil {
			continue
		}
		if err := e.inTheWay(ctx, b); err != nil {
			return effect.Seen{}, err
		}
		if !may {
			return effect.Seen{}, record.Exceeds()
		}
	}
	return effect.Seen{}, errMoving
}

// inTheWay refuses a guard, which is absent, whose scope has another one.
func (e effects) inTheWay(ctx context.Context, b effect.Begin) error {
	var taken bool
	var id string
	err := e.s.read(ctx, statement{e.t.ofScope, scopeArgs(b.Scope), firstRow(&taken, &id)})
	if err == nil && taken && id != string(b.GuardID) {
		return record.OtherID()
	}
	return err
}

func scopeArgs(s retryproof.Scope) []any { return []any{string(s.Key), s.Caller, s.Endpoint} }

// begin reports in may whether the condition of the row held. The records are those that
// the statement saw.
func (e effects) begin(ctx context.Context, b effect.Begin, args []any) (seen effect.Seen, may bool, err error) {
	var claimed, recorded bool
	var c record.ClaimScan
	g := e.t.Scan()
	dest := append(append([]any{&claimed, &recorded, &may}, c.Dest()...), g.Dest()...)
	var answered bool
	st := statement{e.t.begin, args, firstRow(&answered, dest...)}
	if b.Void {
		st.sql = e.t.void
	}
	if err := e.s.begins.do(ctx, e.rowOrder(b), st); err != nil {
		return effect.Seen{}, true, err
	}
	if seen.Claim, err = c.Claim(); err != nil {
		return effect.Seen{}, true, notDone(err)
	}
	seen.Guard = g.Guard()
	if claimed {
		fresh := record.NewClaim(b)
		seen.Claim = &fresh
	}
	if recorded {
		seen.Guard = e.t.Recorded(b)
	}
	return seen, may, nil
}

// rowOrder sorts the operations of a group by the row that they may have to wait for.
func (e effects) rowOrder(b effect.Begin) string {
	if r := e.t.Reservation(b); r != nil {
		return string(r.PaymentID)
	}
	return string(b.GuardID)
}

// Look reads both records in one statement.
func (e effects) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	if cannotExist(string(l.GuardID)) {
		l.GuardID = "" // the id of nothing
	}
	var c record.ClaimScan
	g := e.t.Scan()
	var answered bool
	err := e.s.read(ctx, statement{e.t.look, []any{string(l.Scope.ID()), string(l.GuardID)},
		firstRow(&answered, append(c.Dest(), g.Dest()...)...)})
	if err != nil {
		return effect.Seen{}, err
	}
	claim, err := c.Claim()
	if err != nil {
		return effect.Seen{}, notDone(err)
	}
	return effect.Seen{Claim: record.Live(claim, l), Guard: g.Guard()}, nil
}

// Adopt locks what is there, decides, and writes. It is rare, so it takes several
// round trips.
func (e effects) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	if err := record.CheckAdopt(a); err != nil {
		return effect.Seen{}, err
	}
	var seen effect.Seen
	err := e.s.inTx(ctx, func(ctx context.Context, q query) error {
		err := e.adopt(ctx, q, a)
		if err != nil && !errors.Is(err, errRefused) {
			return err
		}
		seen = effect.Seen{}
		if err != nil {
			return err
		}
		seen, err = e.look(ctx, q, effect.Look{Scope: a.Scope, GuardID: a.GuardID, Now: a.Now})
		return err
	})
	if errors.Is(err, errRefused) { // rolled back: what others wrote is the answer
		return e.Look(ctx, effect.Look{Scope: a.Scope, GuardID: a.GuardID, Now: a.Now})
	}
	return orNothing(seen, err)
}

// errRefused rolls a transaction back whose condition does not hold.
var errRefused = &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeConflict, Message: "a condition does not hold"}

func (e effects) adopt(ctx context.Context, q query, a effect.Adopt) error {
	g, err := e.readGuard(ctx, q, string(a.GuardID), forUpdate)
	if err != nil {
		return err
	}
	if g == nil {
		if !a.Insert {
			return errRefused
		}
		if err := e.insert(ctx, q, a); err != nil {
			return err
		}
	} else if next, allowed := record.AdoptGuard(*g, a); !allowed {
		return errRefused
	} else if next != nil {
		_, err := q.exec(ctx, e.t.adopt, string(next.State), next.Owner, record.Nullable(next.Until), int64(next.Tries),
			record.Micros(next.UpdatedAt), string(next.ID))
		if err != nil {
			return err
		}
	}
	if a.GuardOnly {
		return nil
	}
	return adoptClaim(ctx, q, a)
}

// insert inserts the guard of an adoption that found none.
func (e effects) insert(ctx context.Context, q query, a effect.Adopt) error {
	args, err := e.t.InsertArgs(record.BeginOf(a))
	if err != nil {
		return err
	}
	if e.t.Kind == record.RefundRows {
		return e.reserveWithin(ctx, q, a, args)
	}
	n, err := q.exec(ctx, e.t.insert, args...)
	if err == nil && n == 0 {
		return e.notInserted(ctx, q, a, errRefused)
	}
	return err
}

// notInserted is why an adoption could not insert its guard: another one is there by now,
// the claim refuses, the scope has another guard, or else the given reason.
func (e effects) notInserted(ctx context.Context, q query, a effect.Adopt, reason error) error {
	g, err := e.readGuard(ctx, q, string(a.GuardID), "")
	if err != nil {
		return err
	}
	if g != nil {
		return errRefused
	}
	if !a.GuardOnly {
		stored, err := readClaim(ctx, q, string(a.Scope.ID()), "")
		if err != nil {
			return err
		}
		if _, allowed := record.AdoptClaim(record.Live(stored, effect.Look{Now: a.Now}), a); !allowed {
			return errRefused
		}
	}
	var id string
	err = q.row(ctx, e.t.ofScope, scopeArgs(a.Scope)...).Scan(&id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return reason
	case err != nil:
		return err
	case id == string(a.GuardID):
		return errRefused
	}
	return record.OtherID()
}

// oneRow refuses a write that changed nothing: a concurrent transaction was faster.
func oneRow(n int64, err error) error {
	if err == nil && n == 0 {
		return errRefused
	}
	return err
}

func orNothing[T any](v T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

func (e effects) look(ctx context.Context, q query, l effect.Look) (effect.Seen, error) {
	var c record.ClaimScan
	g := e.t.Scan()
	if err := q.row(ctx, e.t.look, string(l.Scope.ID()), string(l.GuardID)).Scan(append(c.Dest(), g.Dest()...)...); err != nil {
		return effect.Seen{}, err
	}
	claim, err := c.Claim()
	return effect.Seen{Claim: record.Live(claim, l), Guard: g.Guard()}, err
}

const forUpdate = " FOR UPDATE"

// readGuard reads a guard in a transaction; nil when absent.
func (e effects) readGuard(ctx context.Context, q query, id, lock string) (*effect.Guard, error) {
	g := e.t.Scan()
	err := q.row(ctx, e.t.read+lock, id).Scan(g.Dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return g.Guard(), nil
}

// Complete stores an answer or a pointer.
func (e effects) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	return e.CompleteKey(ctx, c)
}

// Release undoes a Begin. It locks in Adopt's order, the guard before the claim.
func (e effects) Release(ctx context.Context, r effect.Release) (bool, error) {
	if err := e.s.write(ctx, append(e.releaseStatements(r), statement{releaseClaimSQL, releaseClaimArgs(r), noRows})...); err != nil {
		return false, err
	}
	return e.gone(ctx, r)
}

func (e effects) releaseStatements(r effect.Release) []statement {
	args := []any{string(r.GuardID), r.Owner}
	return []statement{{e.t.lockRelease, args, noRows}, {e.t.release, args, noRows}}
}

// ReleaseGuard is the guard part of Release.
func (e effects) ReleaseGuard(ctx context.Context, r effect.Release) (bool, error) {
	if err := e.s.write(ctx, e.releaseStatements(r)...); err != nil {
		return false, err
	}
	return e.gone(ctx, r)
}

// gone reads after the commit, so that it sees what is there now.
func (e effects) gone(ctx context.Context, r effect.Release) (bool, error) {
	g, err := e.LookGuard(ctx, effect.Look{GuardID: r.GuardID})
	return g == nil && err == nil, err
}

// RecordGuard is the guard part of Begin.
func (e effects) RecordGuard(ctx context.Context, b effect.Begin) (*effect.Guard, error) {
	if err := record.CheckBegin(b); err != nil {
		return nil, err
	}
	args, err := e.t.InsertArgs(b)
	if err != nil {
		return nil, err
	}
	may := true
	for try := range 3 {
		g, err := e.LookGuard(ctx, effect.Look{GuardID: b.GuardID})
		if err != nil || g != nil {
			return g, err
		}
		if try > 0 {
			if err := e.inTheWay(ctx, b); err != nil {
				return nil, err
			}
		}
		if !may {
			return nil, record.Exceeds()
		}
		var recorded bool
		if e.t.Reservation(b) != nil {
			err = e.s.write(ctx, statement{e.t.reserve, args, eachRow(func(row scanner) error { return row.Scan(&may, &recorded) })})
		} else {
			recorded, err = e.s.changes(ctx, e.t.insert, args...)
		}
		if err != nil {
			return nil, err
		}
		if recorded {
			return e.t.Recorded(b), nil
		}
	}
	return nil, errMoving
}

// AdoptGuard is the guard part of Adopt.
func (e effects) AdoptGuard(ctx context.Context, a effect.Adopt) (*effect.Guard, error) {
	a.GuardOnly = true
	seen, err := e.Adopt(ctx, a)
	return seen.Guard, err
}

// LookGuard reads the guard.
func (e effects) LookGuard(ctx context.Context, l effect.Look) (*effect.Guard, error) {
	if cannotExist(string(l.GuardID)) {
		return nil, nil
	}
	g := e.t.Scan()
	var found bool
	err := e.s.read(ctx, statement{e.t.read, []any{string(l.GuardID)}, firstRow(&found, g.Dest()...)})
	if err != nil || !found {
		return nil, err
	}
	return g.Guard(), nil
}

// Due lists guards for a resolver.
func (e effects) Due(ctx context.Context, d resolve.Due) ([]effect.Guard, error) {
	var out []effect.Guard
	err := e.s.read(ctx, statement{e.t.due, []any{record.Micros(d.Now), d.Margin.Microseconds(), d.UnknownOnly, max(d.Limit, 0)},
		list(&out, func(row scanner) (effect.Guard, error) {
			g := e.t.Scan()
			if err := row.Scan(g.Dest()...); err != nil {
				return effect.Guard{}, err
			}
			return *g.Guard(), nil
		})})
	return orNothing(out, err)
}
