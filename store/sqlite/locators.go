package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/store/internal/record"
)

// Locators is the store of locators.
func (s *Store) Locators() locator.Store { return locatorStore{s} }

type locatorStore struct{ s *Store }

const (
	putLocator = `INSERT INTO locators (id, owner, kind, state, place, revision, fingerprint, value, created_at, changed_at)
		VALUES (?, ?, ?, 'PRESENT', ?, 1, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	moveLocator = `UPDATE locators SET place = ?, revision = revision + 1, changed_at = ?
		WHERE id = ? AND owner = ? AND kind = ? AND state = 'PRESENT' AND place = ? AND (? = 0 OR revision = ?)`
	deleteLocator = `UPDATE locators SET state = 'TOMBSTONE', place = '', value = x'', revision = revision + 1, changed_at = ?
		WHERE id = ? AND owner = ? AND kind = ? AND state = 'PRESENT'`
	selectLocator = `SELECT id, owner, kind, state, place, revision, fingerprint, value, created_at, changed_at FROM locators`
	readLocator   = selectLocator + ` WHERE id = ? AND owner = ? AND kind = ?`
	listLocators  = selectLocator + ` WHERE place = ? AND owner = ? AND kind = ? AND state = 'PRESENT' AND id > ? ORDER BY id LIMIT ?`
)

func scanLocator(row scanner) (*locator.Record, error) {
	var r locator.Record
	var created, changed sql.NullInt64
	err := row.Scan(&r.ID, &r.Owner, &r.Kind, &r.State, &r.Place, &r.Revision, &r.Fingerprint, &r.Value, &created, &changed)
	r.CreatedAt, r.ChangedAt = record.Time(created), record.Time(changed)
	if len(r.Value) == 0 {
		r.Value = nil
	}
	return &r, err
}

// findLocator reads one locator, nil when there is none.
func findLocator(ctx context.Context, q query, n locator.Name) (*locator.Record, error) {
	r, err := scanLocator(q.row(ctx, readLocator, n.ID, n.Owner, n.Kind))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return orNothing(r, err)
}

// changeItem runs a conditional write and says what stands: done when the write
// changed a row, else what next makes of it.
func changeItem(ctx context.Context, q query, n locator.Name, done locator.Verdict, next func(*locator.Record) locator.Result, statement string, args ...any) (locator.Result, error) {
	changed, err := q.exec(ctx, statement, args...)
	if err != nil {
		return locator.Result{}, err
	}
	have, err := findLocator(ctx, q, n)
	if err != nil {
		return locator.Result{}, err
	}
	if changed > 0 {
		return locator.Result{Verdict: done, Record: have}, nil
	}
	return next(have), nil
}

// putItem, moveItem and deleteItem are the operations, for requests that were checked.
func putItem(ctx context.Context, q query, p locator.Put) (locator.Result, error) {
	now := record.Micros(p.Now)
	return changeItem(ctx, q, p.Name, locator.Created, p.Next, putLocator,
		p.ID, p.Owner, p.Kind, p.Place, string(p.Fingerprint), notNil(p.Value), now, now)
}

func moveItem(ctx context.Context, q query, m locator.Move) (locator.Result, error) {
	return changeItem(ctx, q, m.Name, locator.Moved, m.Next, moveLocator,
		m.To, record.Micros(m.Now), m.ID, m.Owner, m.Kind, m.From, m.Revision, m.Revision)
}

func deleteItem(ctx context.Context, q query, d locator.Delete) (locator.Result, error) {
	return changeItem(ctx, q, d.Name, locator.Deleted, d.Next, deleteLocator, record.Micros(d.Now), d.ID, d.Owner, d.Kind)
}

// change runs an operation in a transaction.
func (l locatorStore) change(ctx context.Context, f func(ctx context.Context, q query) (locator.Result, error)) (locator.Result, error) {
	var out locator.Result
	err := l.s.write(ctx, func(ctx context.Context, q query) (err error) {
		out, err = f(ctx, q)
		return err
	})
	return orNothing(out, err)
}

// Put creates the item once.
func (l locatorStore) Put(ctx context.Context, p locator.Put) (locator.Result, error) {
	p, err := p.Check()
	if err != nil {
		return locator.Result{}, err
	}
	return l.change(ctx, func(ctx context.Context, q query) (locator.Result, error) { return putItem(ctx, q, p) })
}

// Move moves the item on the condition that it is where the mover saw it.
func (l locatorStore) Move(ctx context.Context, m locator.Move) (locator.Result, error) {
	if err := m.Check(); err != nil {
		return locator.Result{}, err
	}
	return l.change(ctx, func(ctx context.Context, q query) (locator.Result, error) { return moveItem(ctx, q, m) })
}

// Delete leaves a tombstone.
func (l locatorStore) Delete(ctx context.Context, d locator.Delete) (locator.Result, error) {
	if err := d.Check(); err != nil {
		return locator.Result{}, err
	}
	return l.change(ctx, func(ctx context.Context, q query) (locator.Result, error) { return deleteItem(ctx, q, d) })
}

// Look reads the locator.
func (l locatorStore) Look(ctx context.Context, n locator.Name) (*locator.Record, error) {
	var out *locator.Record
	err := l.s.read(ctx, func(ctx context.Context, q query) (err error) {
		out, err = findLocator(ctx, q, n)
		return err
	})
	return orNothing(out, err)
}

// List reads the items at a place.
func (l locatorStore) List(ctx context.Context, a locator.List) ([]locator.Record, error) {
	var out []locator.Record
	err := l.s.read(ctx, func(ctx context.Context, q query) error {
		rows, err := q.rows(ctx, listLocators, a.Place, a.Owner, a.Kind, a.After, max(a.Limit, 0))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			r, err := scanLocator(rows)
			if err != nil {
				return err
			}
			out = append(out, *r)
		}
		return rows.Err()
	})
	return orNothing(out, err)
}

// item runs an operation in the caller's transaction.
func (t Tx) item(ctx context.Context, check error, f func(ctx context.Context, q query) (locator.Result, error)) (locator.Result, error) {
	if err := errors.Join(t.valid(), check); err != nil {
		return locator.Result{}, err
	}
	out, err := f(ctx, t.q)
	return orNothing(out, notDone(err))
}

// PutItem is locator.Store's Put, as a part of your transaction.
func (t Tx) PutItem(ctx context.Context, p locator.Put) (locator.Result, error) {
	p, err := p.Check()
	return t.item(ctx, err, func(ctx context.Context, q query) (locator.Result, error) { return putItem(ctx, q, p) })
}

// MoveItem is locator.Store's Move, as a part of your transaction.
func (t Tx) MoveItem(ctx context.Context, m locator.Move) (locator.Result, error) {
	return t.item(ctx, m.Check(), func(ctx context.Context, q query) (locator.Result, error) { return moveItem(ctx, q, m) })
}

// DeleteItem is locator.Store's Delete, as a part of your transaction.
func (t Tx) DeleteItem(ctx context.Context, d locator.Delete) (locator.Result, error) {
	return t.item(ctx, d.Check(), func(ctx context.Context, q query) (locator.Result, error) { return deleteItem(ctx, q, d) })
}
