package record

import (
	"database/sql"
	"math"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
)

// EvidenceArgs are the column values guard_table, guard_id, name, kind, by_whom, seen,
// at. The table is part of the key: an application names the ids of its generic guards
// itself, so that one could be a payment's.
func (t Table) EvidenceArgs(id retryproof.ID, e effect.Evidence) []any {
	return []any{t.Name, string(id), e.Name, string(e.Kind), e.By, e.Seen, Micros(e.At)}
}

// ScanEvidence reads the columns name, kind, by_whom, seen, at.
func ScanEvidence(id retryproof.ID, scan func(dest ...any) error) (effect.Evidence, error) {
	e := effect.Evidence{GuardID: id}
	var at sql.NullInt64
	err := scan(&e.Name, &e.Kind, &e.By, &e.Seen, &at)
	e.At = Time(at)
	return e, err
}

// CheckQuery refuses a list without an end.
func CheckQuery(q payments.Query) error {
	if q.Limit <= 0 {
		return Invalid("a list needs a limit")
	}
	return nil
}

// QueryArgs are the bounds of created_at and the time and id that the list continues
// behind, then the limit. Without a bound they are values that leave nothing out.
func QueryArgs(q payments.Query) []any {
	bound := func(t time.Time, without int64) int64 {
		if t.IsZero() {
			return without
		}
		return Micros(t)
	}
	from, after := bound(q.From, math.MinInt64), int64(math.MinInt64)
	if q.After.ID != "" {
		after = Micros(q.After.CreatedAt)
		from = max(from, after) // so that the index is entered there
	}
	return []any{from, bound(q.To, math.MaxInt64), after, string(q.After.ID), q.Limit}
}
