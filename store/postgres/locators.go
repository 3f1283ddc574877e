package postgres

import (
	"context"
	"database/sql"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/store/internal/record"
)

// Locators is the store of locators.
func (s *Store) Locators() locator.Store { return locatorStore{s} }

type locatorStore struct{ s *Store }

const locatorColumns = "id, owner, kind, state, place, revision, fingerprint, value, created_at, changed_at"

const (
	putLocatorSQL = `INSERT INTO locators (` + locatorColumns + `)
		VALUES ($1::text, $2::text, $3::text, 'PRESENT', $4::text, 1, $5::text, $6::bytea, $7::bigint, $7::bigint)
		ON CONFLICT DO NOTHING RETURNING ` + locatorColumns
	moveLocatorSQL = `UPDATE locators SET place = $4::text, revision = revision + 1, changed_at = $5::bigint
		WHERE id = $1::text AND owner = $2::text AND kind = $3::text AND state = 'PRESENT' AND place = $6::text
			AND ($7::bigint = 0 OR revision = $7::bigint)
		RETURNING ` + locatorColumns
	deleteLocatorSQL = `UPDATE locators SET state = 'TOMBSTONE', place = '', value = '', revision = revision + 1, changed_at = $4::bigint
		WHERE id = $1::text AND owner = $2::text AND kind = $3::text AND state = 'PRESENT'
		RETURNING ` + locatorColumns
	readLocatorSQL  = `SELECT ` + locatorColumns + ` FROM locators WHERE id = $1 AND owner = $2 AND kind = $3`
	listLocatorsSQL = `SELECT ` + locatorColumns + ` FROM locators
		WHERE place = $1 AND owner = $2 AND kind = $3 AND state = 'PRESENT' AND id > $4 ORDER BY id LIMIT $5`
)

func fingerprint(s string) retryproof.Fingerprint { return retryproof.Fingerprint(s) }

// locatorScan receives the columns of a locator.
type locatorScan struct {
	r                  locator.Record
	state, fingerprint string
	created, changed   sql.NullInt64
}

func (s *locatorScan) dest() []any {
	r := &s.r
	return []any{&r.ID, &r.Owner, &r.Kind, &s.state, &r.Place, &r.Revision, &s.fingerprint, &r.Value, &s.created, &s.changed}
}

func (s *locatorScan) record() *locator.Record {
	r := s.r
	r.State, r.Fingerprint = locator.State(s.state), fingerprint(s.fingerprint)
	r.CreatedAt, r.ChangedAt = record.Time(s.created), record.Time(s.changed)
	if len(r.Value) == 0 {
		r.Value = nil
	}
	return &r
}

func findLocator(ctx context.Context, read one, n locator.Name) (*locator.Record, error) {
	var s locatorScan
	if found, err := read(ctx, readLocatorSQL, nameArgs(n), s.dest()...); err != nil || !found {
		return nil, err
	}
	return s.record(), nil
}

func nameArgs(n locator.Name, more ...any) []any {
	return append([]any{n.ID, n.Owner, n.Kind}, more...)
}

// places runs operations on locators in a transaction of ours or of the caller's.
// Each is one conditional statement; when its condition did not hold, what stands is
// read by a second one, which sees what was committed meanwhile. A move or a deletion
// that was overtaken between the two is tried again.
type places struct{ write, read one }

func (p places) change(ctx context.Context, n locator.Name, done locator.Verdict, next func(*locator.Record) locator.Result, sql string, args []any) (locator.Result, error) {
	for range 3 {
		var s locatorScan
		changed, err := p.write(ctx, sql, args, s.dest()...)
		if err != nil {
			return locator.Result{}, err
		}
		if changed {
			return locator.Result{Verdict: done, Record: s.record()}, nil
		}
		have, err := findLocator(ctx, p.read, n)
		if err != nil {
			return locator.Result{}, err
		}
		if out := next(have); out.Verdict != done {
			return out, nil
		}
	}
	return locator.Result{}, errMoving
}

func (p places) put(ctx context.Context, a locator.Put) (locator.Result, error) {
	a, err := a.Check()
	if err != nil {
		return locator.Result{}, err
	}
	value := a.Value
	if value == nil {
		value = []byte{}
	}
	return p.change(ctx, a.Name, locator.Created, a.Next, putLocatorSQL,
		nameArgs(a.Name, a.Place, string(a.Fingerprint), value, record.Micros(a.Now)))
}

func (p places) move(ctx context.Context, a locator.Move) (locator.Result, error) {
	if err := a.Check(); err != nil {
		return locator.Result{}, err
	}
	return p.change(ctx, a.Name, locator.Moved, a.Next, moveLocatorSQL,
		nameArgs(a.Name, a.To, record.Micros(a.Now), a.From, a.Revision))
}

func (p places) delete(ctx context.Context, a locator.Delete) (locator.Result, error) {
	if err := a.Check(); err != nil {
		return locator.Result{}, err
	}
	return p.change(ctx, a.Name, locator.Deleted, a.Next, deleteLocatorSQL, nameArgs(a.Name, record.Micros(a.Now)))
}

func (l locatorStore) places() places { return places{l.s.writeOne, l.s.readOne} }

// Put creates the item once.
func (l locatorStore) Put(ctx context.Context, p locator.Put) (locator.Result, error) {
	return l.places().put(ctx, p)
}

// Move moves the item on the condition that it is where the mover saw it.
func (l locatorStore) Move(ctx context.Context, m locator.Move) (locator.Result, error) {
	return l.places().move(ctx, m)
}

// Delete leaves a tombstone.
func (l locatorStore) Delete(ctx context.Context, d locator.Delete) (locator.Result, error) {
	return l.places().delete(ctx, d)
}

// Look reads the locator.
func (l locatorStore) Look(ctx context.Context, n locator.Name) (*locator.Record, error) {
	if cannotExist(n.ID, n.Owner, n.Kind) {
		return nil, nil
	}
	return findLocator(ctx, l.s.readOne, n)
}

// List reads the items at a place.
func (l locatorStore) List(ctx context.Context, a locator.List) ([]locator.Record, error) {
	if cannotExist(a.Place, a.Owner, a.Kind, a.After) {
		return nil, nil
	}
	var out []locator.Record
	err := l.s.read(ctx, statement{listLocatorsSQL, []any{a.Place, a.Owner, a.Kind, a.After, max(a.Limit, 0)},
		list(&out, func(row scanner) (locator.Record, error) {
			var s locatorScan
			err := row.Scan(s.dest()...)
			return *s.record(), err
		})})
	return orNothing(out, err)
}

// PutItem is locator.Store's Put, as a part of your transaction.
func (t Tx) PutItem(ctx context.Context, p locator.Put) (locator.Result, error) {
	if err := t.valid(); err != nil {
		return locator.Result{}, err
	}
	return places{t.one, t.one}.put(ctx, p)
}

// MoveItem is locator.Store's Move, as a part of your transaction.
func (t Tx) MoveItem(ctx context.Context, m locator.Move) (locator.Result, error) {
	if err := t.valid(); err != nil {
		return locator.Result{}, err
	}
	return places{t.one, t.one}.move(ctx, m)
}

// DeleteItem is locator.Store's Delete, as a part of your transaction.
func (t Tx) DeleteItem(ctx context.Context, d locator.Delete) (locator.Result, error) {
	if err := t.valid(); err != nil {
		return locator.Result{}, err
	}
	return places{t.one, t.one}.delete(ctx, d)
}
