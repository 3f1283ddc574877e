package sqlite

import (
	"context"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/internal/record"
)

// keep stores evidence about a guard unless one of its name is there.
func (e effects) keep(ctx context.Context, q query, id retryproof.ID, v *effect.Evidence) (bool, error) {
	if v == nil {
		return false, nil
	}
	n, err := q.exec(ctx, `INSERT INTO evidence (guard_table, guard_id, name, kind, by_whom, seen, at) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, e.t.EvidenceArgs(id, *v)...)
	return n > 0, err
}

// Evidence lists what is kept beside a guard.
func (e effects) Evidence(ctx context.Context, id retryproof.ID) ([]effect.Evidence, error) {
	var out []effect.Evidence
	err := e.s.read(ctx, func(ctx context.Context, q query) error {
		rows, err := q.rows(ctx, `SELECT name, kind, by_whom, seen, at FROM evidence
			WHERE guard_table = ? AND guard_id = ? ORDER BY at, name`, e.t.Name, string(id))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			v, err := record.ScanEvidence(id, rows.Scan)
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return rows.Err()
	})
	return orNothing(out, err)
}
