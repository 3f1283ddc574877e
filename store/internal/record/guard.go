package record

import (
	"database/sql"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// Table names a table of guards. They differ in the business columns only.
type Table struct {
	// Name is the table's name, ID its primary key, Caller the caller's column.
	Name, ID, Caller string
	// Kind says what is kept beside the guard.
	Kind Kind
}

// The tables of guards.
var (
	Guards   = Table{Name: "guards", ID: "id", Caller: "caller"}
	Payments = Table{Name: "payments", ID: "payment_id", Caller: "caller_id", Kind: PaymentRows}
	Refunds  = Table{Name: "refunds", ID: "refund_id", Caller: "caller_id", Kind: RefundRows}
)

// Columns are the table's columns in the order of GuardScan.Dest and InsertArgs.
func (t Table) Columns() []string {
	return append([]string{t.ID, "client_key", t.Caller, "endpoint", "fingerprint", "state", "owner", "lease_until",
		"settled_by", "tries", "next_at", "created_at", "updated_at"}, t.businessColumns()...)
}

// InsertArgs are the column values of the PENDING, or VOID, guard that b asks for.
func (t Table) InsertArgs(b effect.Begin) ([]any, error) {
	row, err := t.businessArgs(b)
	if err != nil {
		return nil, err
	}
	g := newGuard(b)
	return append([]any{string(g.ID), string(g.Scope.Key), g.Scope.Caller, g.Scope.Endpoint, string(g.Fingerprint),
		string(g.State), g.Owner, Nullable(g.Until), g.SettledBy, int64(0), nil, Micros(b.Now), Micros(b.Now)}, row...), nil
}

// newGuard is the guard that b asks for, without its row.
func newGuard(b effect.Begin) effect.Guard {
	g := effect.Guard{ID: b.GuardID, Scope: b.Scope, CreatedAt: micro(b.Now), UpdatedAt: micro(b.Now)}
	if b.Void {
		g.State, g.SettledBy = effect.Void, b.Owner
		return g
	}
	g.Fingerprint, g.State, g.Owner, g.Until = b.Fingerprint, effect.Pending, b.Owner, micro(b.Until)
	return g
}

// Recorded is the guard that InsertArgs writes, as it would be read back.
func (t Table) Recorded(b effect.Begin) *effect.Guard {
	g := newGuard(b)
	g.Row = t.newRow(b)
	mirror(&g)
	return &g
}

// Settled is the guard after a settlement that moves it.
func (t Table) Settled(g effect.Guard, s effect.Settle) *effect.Guard {
	g.State, g.Owner, g.Until, g.SettledBy = s.To, "", time.Time{}, s.By
	g.UpdatedAt, g.NextAt = micro(s.Now), micro(NextAt(s))
	if s.Result != nil && t.Kind == Generic {
		g.Result = s.Result
	}
	g.Row = t.settledRow(g.Row, s)
	mirror(&g)
	return &g
}

func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// GuardScan receives the columns of a guard, or NULLs when there is none.
type GuardScan struct {
	table                                                    Table
	id, key, caller, endpoint, fingerprint, state, owner, by sql.NullString
	tries, until, next, created, updated                     sql.NullInt64
	business                                                 rowScan
}

// Scan returns a destination for one row of the table.
func (t Table) Scan() *GuardScan { return &GuardScan{table: t} }

// Dest are the scan destinations in the order of Table.Columns.
func (s *GuardScan) Dest() []any {
	return append([]any{&s.id, &s.key, &s.caller, &s.endpoint, &s.fingerprint, &s.state, &s.owner, &s.until,
		&s.by, &s.tries, &s.next, &s.created, &s.updated}, s.business.dest(s.table.Kind)...)
}

// Guard is what was scanned; nil when there was none.
func (s *GuardScan) Guard() *effect.Guard {
	if !s.id.Valid {
		return nil
	}
	g := &effect.Guard{
		ID:          retryproof.ID(s.id.String),
		Scope:       retryproof.Scope{Endpoint: s.endpoint.String, Caller: s.caller.String, Key: retryproof.Key(s.key.String)},
		Fingerprint: retryproof.Fingerprint(s.fingerprint.String),
		State:       effect.State(s.state.String),
		Owner:       s.owner.String,
		Until:       Time(s.until),
		SettledBy:   s.by.String,
		Tries:       int(s.tries.Int64),
		NextAt:      Time(s.next),
		CreatedAt:   Time(s.created),
		UpdatedAt:   Time(s.updated),
		Result:      s.business.result,
		Row:         s.business.row(s.table.Kind),
	}
	mirror(g)
	return g
}

// Prefixed joins columns for a SELECT, each with the alias before it.
func Prefixed(alias string, columns []string) string {
	return alias + "." + strings.Join(columns, ", "+alias+".")
}
