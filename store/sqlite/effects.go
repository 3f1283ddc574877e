package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/store/internal/record"
)

// guardTable is a table of guards with its statements.
type guardTable struct {
	record.Table
	look, list, read, insert, update, release, due string
}

var guardTables = map[string]*guardTable{
	record.Guards.Name:   newGuardTable(record.Guards),
	record.Payments.Name: newGuardTable(record.Payments),
	record.Refunds.Name:  newGuardTable(record.Refunds),
}

func table(t record.Table) *guardTable { return guardTables[t.Name] }

func newGuardTable(t record.Table) *guardTable {
	columns := t.Columns()
	var business strings.Builder
	for _, c := range t.BusinessColumns() {
		fmt.Fprintf(&business, ", %s = coalesce(?, %s)", c, c)
	}
	return &guardTable{
		Table: t,
		look: fmt.Sprintf("SELECT %s, %s FROM (SELECT 1) LEFT JOIN claims c ON c.scope_id = ? LEFT JOIN %s g ON g.%s = ?",
			record.Prefixed("c", record.ClaimColumns), record.Prefixed("g", columns), t.Name, t.ID),
		list: fmt.Sprintf("SELECT %s FROM %s", strings.Join(columns, ", "), t.Name),
		read: fmt.Sprintf("SELECT %s FROM %s WHERE %s = ?", strings.Join(columns, ", "), t.Name, t.ID),
		insert: fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT DO NOTHING",
			t.Name, strings.Join(columns, ", "), marks(len(columns))),
		update: fmt.Sprintf("UPDATE %s SET state = ?, owner = ?, lease_until = ?, settled_by = ?, tries = ?, next_at = ?, updated_at = ?%s WHERE %s = ?",
			t.Name, business.String(), t.ID),
		release: fmt.Sprintf(`DELETE FROM %[1]s WHERE %[2]s = ?1 AND state = 'PENDING' AND owner = ?2
			AND NOT EXISTS (SELECT 1 FROM evidence WHERE guard_table = '%[1]s' AND guard_id = ?1)`, t.Name, t.ID),
		due: fmt.Sprintf(`SELECT %s FROM %s
			WHERE state IN ('PENDING', 'UNKNOWN') AND coalesce(lease_until + ?2 < ?1, TRUE)
				AND ((state = 'UNKNOWN' AND coalesce(next_at <= ?1, TRUE)) OR (state = 'PENDING' AND NOT ?3))
			ORDER BY updated_at, %s LIMIT ?4`, strings.Join(columns, ", "), t.Name, t.ID),
	}
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

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

// Begin is a read when the claim is there, else one transaction.
func (e effects) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	if err := record.CheckBegin(b); err != nil {
		return effect.Seen{}, err
	}
	row, err := e.t.InsertArgs(b)
	if err != nil {
		return effect.Seen{}, err
	}
	if b.Void {
		return e.void(ctx, b, row)
	}
	look := effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now}
	seen, err := e.Look(ctx, look)
	if err != nil || record.Decided(b, seen) {
		return seen, err
	}
	err = e.s.reserving(ctx, func(ctx context.Context, q query) error {
		if e.t.Kind == record.RefundRows {
			seen, err = e.beginRefund(ctx, q, b, row)
			return err
		}
		seen, err = e.begin(ctx, q, b, row)
		return err
	})
	return orNothing(seen, err)
}

func (e effects) begin(ctx context.Context, q query, b effect.Begin, row []any) (seen effect.Seen, err error) {
	claimed, err := insertClaim(ctx, q, b)
	if err != nil {
		return seen, err
	}
	if claimed {
		c := record.NewClaim(b)
		seen.Claim = &c
	} else if seen, err = e.look(ctx, q, effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now}); err != nil {
		return seen, err
	}
	if record.Mine(seen.Claim, b.Owner) && seen.Guard == nil {
		seen.Guard, err = e.record(ctx, q, b, row)
	}
	return seen, err
}

// record inserts the guard unless it is there, and returns what is there then. It
// refuses a guard whose scope has another one.
func (e effects) record(ctx context.Context, q query, b effect.Begin, row []any) (*effect.Guard, error) {
	n, err := q.exec(ctx, e.t.insert, row...)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		return e.t.Recorded(b), nil
	}
	g, err := e.readGuard(ctx, q, string(b.GuardID))
	if err == nil && g == nil {
		return nil, record.OtherID()
	}
	return g, err
}

// inserted refuses a guard that was absent and could not be inserted: only another
// guard of its scope can be in the way.
func inserted(n int64, err error) error {
	if err == nil && n == 0 {
		return record.OtherID()
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

func (e effects) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	var seen effect.Seen
	err := e.s.read(ctx, func(ctx context.Context, q query) (err error) {
		seen, err = e.look(ctx, q, l)
		return err
	})
	return orNothing(seen, err)
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

func (e effects) readGuard(ctx context.Context, q query, id string) (*effect.Guard, error) {
	g := e.t.Scan()
	err := q.row(ctx, e.t.read, id).Scan(g.Dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return g.Guard(), err
}

func (e effects) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	if err := record.CheckAdopt(a); err != nil {
		return effect.Seen{}, err
	}
	var seen effect.Seen
	err := e.s.reserving(ctx, func(ctx context.Context, q query) error {
		var err error
		look := effect.Look{Scope: a.Scope, GuardID: a.GuardID, Now: a.Now}
		if seen, err = e.look(ctx, q, look); err != nil {
			return err
		}
		writeGuard, ok, err := e.adoptGuard(seen.Guard, a)
		if err != nil || !ok {
			return err
		}
		writeClaim, ok := nothing, true
		if !a.GuardOnly {
			writeClaim, ok = adoptClaim(seen.Claim, a)
		}
		if !ok {
			return nil
		}
		if err := writeGuard(ctx, q); err != nil { // first: it may refuse
			return err
		}
		if err := writeClaim(ctx, q); err != nil {
			return err
		}
		seen, err = e.look(ctx, q, look)
		return err
	})
	return orNothing(seen, err)
}

// change is a write that was decided on and not done yet.
type change func(ctx context.Context, q query) error

func nothing(context.Context, query) error { return nil }

func (e effects) adoptGuard(g *effect.Guard, a effect.Adopt) (change, bool, error) {
	if g == nil {
		row, err := e.t.InsertArgs(record.BeginOf(a))
		return func(ctx context.Context, q query) error {
			if err := e.reserve(ctx, q, record.BeginOf(a)); err != nil {
				return err
			}
			return inserted(q.exec(ctx, e.t.insert, row...))
		}, a.Insert && err == nil, err
	}
	next, allowed := record.AdoptGuard(*g, a)
	if next == nil {
		return nothing, allowed, nil
	}
	return func(ctx context.Context, q query) error {
		_, err := q.exec(ctx, e.t.update, e.updateArgs(*next, make([]any, len(e.t.BusinessColumns())))...)
		return err
	}, true, nil
}

func (e effects) updateArgs(g effect.Guard, business []any) []any {
	args := []any{string(g.State), g.Owner, record.Nullable(g.Until), g.SettledBy, g.Tries, record.Nullable(g.NextAt), record.Micros(g.UpdatedAt)}
	return append(append(args, business...), string(g.ID))
}

func adoptClaim(c *effect.Claim, a effect.Adopt) (change, bool) {
	next, allowed := record.AdoptClaim(c, a)
	if next == nil {
		return nothing, allowed
	}
	return func(ctx context.Context, q query) error { return putClaim(ctx, q, *next) }, true
}

func (e effects) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	return e.CompleteKey(ctx, c)
}

func (e effects) Release(ctx context.Context, r effect.Release) (bool, error) {
	var gone bool
	err := e.s.write(ctx, func(ctx context.Context, q query) (err error) {
		if err := releaseClaim(ctx, q, r); err != nil {
			return err
		}
		gone, err = e.releaseGuard(ctx, q, r)
		return err
	})
	return gone && err == nil, err
}

func (e effects) releaseGuard(ctx context.Context, q query, r effect.Release) (bool, error) {
	g, err := e.readGuard(ctx, q, string(r.GuardID))
	if err != nil || g == nil {
		return err == nil, err
	}
	n, err := q.exec(ctx, e.t.release, string(r.GuardID), r.Owner)
	if err != nil || n == 0 {
		return false, err
	}
	return true, e.giveBack(ctx, q, g)
}

// Due lists guards for a resolver.
func (e effects) Due(ctx context.Context, d resolve.Due) ([]effect.Guard, error) {
	var out []effect.Guard
	args := []any{record.Micros(d.Now), d.Margin.Microseconds(), d.UnknownOnly, d.Limit}
	err := listGuards(ctx, e.s, e.t, e.t.due, args, func(g *effect.Guard) { out = append(out, *g) })
	return slices.Clip(out), err
}
