package record

import (
	"database/sql"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
)

// Table names a table of guards. The two differ in the business columns only.
type Table struct {
	// Name is the table's name, ID its primary key, Caller the caller's column.
	Name, ID, Caller string
	// Payments says that each row is a payment.
	Payments bool
}

// The tables of guards.
var (
	Guards   = Table{Name: "guards", ID: "id", Caller: "caller"}
	Payments = Table{Name: "payments", ID: "payment_id", Caller: "caller_id", Payments: true}
)

// Columns are the table's columns in the order of GuardScan.Dest and InsertArgs.
func (t Table) Columns() []string {
	common := []string{t.ID, "client_key", t.Caller, "endpoint", "fingerprint", "state", "owner", "lease_until",
		"settled_by", "tries", "next_at", "created_at", "updated_at"}
	if t.Payments {
		return append(common, "order_id", "merchant_id", "amount", "currency", "payment_method", "psp_charge", "decline_code")
	}
	return append(common, "result")
}

// BusinessColumns are the columns that a settlement may set, in the order of
// SettleArgs.
func (t Table) BusinessColumns() []string {
	if t.Payments {
		return []string{"psp_charge", "decline_code"}
	}
	return []string{"result"}
}

// InsertArgs are the column values of the PENDING guard that b asks for.
func (t Table) InsertArgs(b effect.Begin) ([]any, error) {
	args := []any{string(b.GuardID), string(b.Scope.Key), b.Scope.Caller, b.Scope.Endpoint, string(b.Fingerprint),
		string(effect.Pending), b.Owner, Nullable(b.Until), "", int64(0), nil, Micros(b.Now), Micros(b.Now)}
	if !t.Payments {
		if b.Row != nil {
			return nil, Invalid("the generic guard table keeps no business row")
		}
		return append(args, nil), nil
	}
	p, err := payment(b.Row)
	if err != nil {
		return nil, err
	}
	return append(args, p.OrderID, p.MerchantID, p.Amount, p.Currency, p.Method, p.ChargeID, p.DeclineCode), nil
}

func payment(row any) (payments.Payment, error) {
	if p, ok := row.(payments.Payment); ok {
		return p, nil
	}
	return payments.Payment{}, Invalid("the row of the payments table must be a payments.Payment")
}

// Recorded is the guard that InsertArgs writes, as it would be read back.
func (t Table) Recorded(b effect.Begin) *effect.Guard {
	g := &effect.Guard{ID: b.GuardID, Scope: b.Scope, Fingerprint: b.Fingerprint, State: effect.Pending, Owner: b.Owner,
		Until: micro(b.Until), CreatedAt: micro(b.Now), UpdatedAt: micro(b.Now)}
	if t.Payments {
		p, _ := payment(b.Row)
		g.Row = p
	}
	t.mirror(g)
	return g
}

// Settled is the guard after a settlement that moves it.
func (t Table) Settled(g effect.Guard, s effect.Settle) *effect.Guard {
	g.State, g.Owner, g.Until, g.SettledBy = s.To, "", time.Time{}, s.By
	g.UpdatedAt, g.NextAt = micro(s.Now), micro(NextAt(s))
	if s.Result != nil && !t.Payments {
		g.Result = s.Result
	}
	if o, ok := s.Row.(payments.Outcome); ok && t.Payments {
		p := g.Row.(payments.Payment)
		p.ChargeID, p.DeclineCode = o.ChargeID, o.DeclineCode
		g.Row = p
	}
	t.mirror(&g)
	return &g
}

// mirror copies to the business row what the guard's columns hold.
func (t Table) mirror(g *effect.Guard) {
	if p, ok := g.Row.(payments.Payment); ok {
		p.ID, p.Caller, p.State, p.CreatedAt, p.UpdatedAt = g.ID, g.Scope.Caller, g.State, g.CreatedAt, g.UpdatedAt
		g.Row = p
	}
}

func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// SettleArgs are the values of BusinessColumns; NULL leaves a column as it is.
func (t Table) SettleArgs(s effect.Settle) ([]any, error) {
	if !t.Payments {
		if s.Row != nil {
			return nil, Invalid("the generic guard table keeps no business row")
		}
		if s.Result == nil {
			return []any{nil}, nil
		}
		return []any{s.Result}, nil
	}
	switch o := s.Row.(type) {
	case nil:
		return []any{nil, nil}, nil
	case payments.Outcome:
		return []any{o.ChargeID, o.DeclineCode}, nil
	}
	return nil, Invalid("the payments table takes a payments.Outcome to settle")
}

// GuardScan receives the columns of a guard, or NULLs when there is none.
type GuardScan struct {
	table                                                    Table
	id, key, caller, endpoint, fingerprint, state, owner, by sql.NullString
	tries, until, next, created, updated                     sql.NullInt64
	result                                                   []byte
	order, merchant, currency, method, charge, decline       sql.NullString
	amount                                                   sql.NullInt64
}

// Scan returns a destination for one row of the table.
func (t Table) Scan() *GuardScan { return &GuardScan{table: t} }

// Dest are the scan destinations in the order of Table.Columns.
func (s *GuardScan) Dest() []any {
	d := []any{&s.id, &s.key, &s.caller, &s.endpoint, &s.fingerprint, &s.state, &s.owner, &s.until,
		&s.by, &s.tries, &s.next, &s.created, &s.updated}
	if s.table.Payments {
		return append(d, &s.order, &s.merchant, &s.amount, &s.currency, &s.method, &s.charge, &s.decline)
	}
	return append(d, &s.result)
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
		Result:      s.result,
	}
	if s.table.Payments {
		g.Row = payments.Payment{
			OrderID: s.order.String, MerchantID: s.merchant.String, Amount: s.amount.Int64, Currency: s.currency.String,
			Method: s.method.String, ChargeID: s.charge.String, DeclineCode: s.decline.String,
		}
	}
	s.table.mirror(g)
	return g
}

// Prefixed joins columns for a SELECT, each with the alias before it.
func Prefixed(alias string, columns []string) string {
	return alias + "." + strings.Join(columns, ", "+alias+".")
}
