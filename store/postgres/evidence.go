package postgres

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/internal/record"
)

// keptSQL are queries of a WITH that keep evidence. "held" locks the guard, so that it
// is not released at the same time; "kept" is what was stored. Parameters: those of
// evidenceArgs, from the given number on. The condition is for all of it.
func keptSQL(t record.Table, from int, condition string) (held, kept string) {
	held = fmt.Sprintf("held AS MATERIALIZED (\n\tSELECT 1 FROM %s WHERE %s = $1::text%s FOR NO KEY UPDATE\n), ", t.Name, t.ID, condition)
	kept = fmt.Sprintf(`, kept AS (
	INSERT INTO evidence (guard_table, guard_id, name, kind, by_whom, seen, at)
	SELECT '%s', $1::text, v.name, v.kind, v.by_whom, v.seen, v.at
	FROM unnest($%d::text[], $%d::text[], $%d::text[], $%d::text[], $%d::bigint[], $%d::bool[]) WITH ORDINALITY AS v (name, kind, by_whom, seen, at, verdict, n)
	WHERE EXISTS (SELECT FROM held) AND (NOT v.verdict OR EXISTS (SELECT FROM moved))
	ORDER BY v.n
	ON CONFLICT (guard_id, name, guard_table) DO NOTHING RETURNING name
)`, t.Name, from, from+1, from+2, from+3, from+4, from+5)
	return held, kept
}

// evidenceArgs are arrays of the columns name, kind, by_whom, seen and at, and whether
// each is kept only when the guard moves; then the name of the note. The note is first.
func evidenceArgs(s effect.Settle) []any {
	var names, kinds, bys, seens []string
	var times []int64
	var verdicts []bool
	note := ""
	for _, e := range []*effect.Evidence{s.Note, s.Evidence} {
		if e == nil {
			continue
		}
		names, kinds, bys, seens = append(names, e.Name), append(kinds, string(e.Kind)), append(bys, e.By), append(seens, e.Seen)
		times, verdicts = append(times, record.Micros(e.At)), append(verdicts, e == s.Evidence)
	}
	if s.Note != nil {
		note = s.Note.Name
	}
	return []any{names, kinds, bys, seens, times, verdicts, note}
}

// keep stores evidence about a guard in a transaction, unless one of its name is there.
func (e effects) keep(ctx context.Context, q query, id retryproof.ID, v *effect.Evidence) (bool, error) {
	if v == nil {
		return false, nil
	}
	n, err := q.exec(ctx, `INSERT INTO evidence (guard_table, guard_id, name, kind, by_whom, seen, at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (guard_id, name, guard_table) DO NOTHING`, e.t.EvidenceArgs(id, *v)...)
	return n > 0, err
}

// Evidence lists what is kept beside a guard.
func (e effects) Evidence(ctx context.Context, id retryproof.ID) ([]effect.Evidence, error) {
	if cannotExist(string(id)) {
		return nil, nil
	}
	var out []effect.Evidence
	err := e.s.read(ctx, statement{`SELECT name, kind, by_whom, seen, at FROM evidence
		WHERE guard_id = $1 AND guard_table = $2 ORDER BY at, name`, []any{string(id), e.t.Name},
		list(&out, func(row scanner) (effect.Evidence, error) { return record.ScanEvidence(id, row.Scan) })})
	return orNothing(out, err)
}
