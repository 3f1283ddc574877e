package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/saga"
)

// sagaRows are the sagas and the marks of participants. Records are replaced, never
// changed, so that an index's order holds.
type sagaRows struct {
	byID map[retryproof.ID]*saga.Record
	// open holds those that are not final by (NextAt, ID), all by (CreatedAt, ID).
	open, all index[*saga.Record]
	marks     map[string]saga.Mark
}

func newSagaRows() sagaRows {
	return sagaRows{
		byID:  map[retryproof.ID]*saga.Record{},
		marks: map[string]saga.Mark{},
		open: index[*saga.Record]{compare: func(a, b *saga.Record) int {
			return cmp.Or(a.NextAt.Compare(b.NextAt), cmp.Compare(a.ID, b.ID))
		}},
		all: index[*saga.Record]{compare: bySagaAge},
	}
}

func bySagaAge(a, b *saga.Record) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// put stores a record in the place of the one with its id.
func (r *sagaRows) put(rec saga.Record) {
	if old := r.byID[rec.ID]; old != nil {
		r.all.remove(old)
		r.open.remove(old)
	}
	r.byID[rec.ID] = &rec
	r.all.add(&rec)
	if !rec.State.Final() {
		r.open.add(&rec)
	}
}

// Sagas is the store of sagas.
func (s *Store) Sagas() saga.Store { return sagaStore{s} }

// Marks is the store of marks for a saga's participant.
func (s *Store) Marks() saga.Marks { return markStore{s} }

type sagaStore struct{ s *Store }

func (t sagaStore) Start(ctx context.Context, s saga.Start) (saga.Record, error) {
	if err := s.Check(); err != nil {
		return saga.Record{}, err
	}
	if err := t.s.lock(ctx); err != nil {
		return saga.Record{}, err
	}
	defer t.s.mu.Unlock()
	rows := &t.s.sagas
	if rows.byID[s.ID] == nil {
		now := round(s.Now)
		rows.put(saga.Record{ID: s.ID, Name: s.Name, Fingerprint: s.Fingerprint, Input: bytes.Clone(s.Input), State: saga.Running,
			Version: 1, NextAt: now, CreatedAt: now, UpdatedAt: now})
	}
	return rows.byID[s.ID].Clone(), nil
}

func (t sagaStore) Lease(ctx context.Context, l saga.Lease) (*saga.Record, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if err := t.s.lock(ctx); err != nil {
		return nil, err
	}
	defer t.s.mu.Unlock()
	now, rows := round(l.Now), &t.s.sagas
	free := func(r *saga.Record) bool {
		return slices.Contains(l.Names, r.Name) && (r.Owner == "" || r.Until.Add(l.Margin).Before(now))
	}
	var found *saga.Record
	if l.ID != "" {
		if r := rows.byID[l.ID]; r != nil && !r.State.Final() && free(r) {
			found = r
		}
	} else {
		for r := range rows.open.all() {
			if r.NextAt.After(now) {
				break
			}
			if free(r) {
				found = r
				break
			}
		}
	}
	if found == nil {
		return nil, nil
	}
	leased := found.Clone()
	leased.Owner, leased.Until, leased.SavedBy = l.Owner, round(l.Until), ""
	leased.Version++
	rows.put(leased.Clone())
	return &leased, nil
}

func (t sagaStore) Save(ctx context.Context, s saga.Save) (bool, error) {
	if err := s.Check(); err != nil {
		return false, err
	}
	if err := t.s.lock(ctx); err != nil {
		return false, err
	}
	defer t.s.mu.Unlock()
	old := t.s.sagas.byID[s.ID]
	if old == nil || old.State.Final() || old.Owner != s.Owner || old.Version != s.Version {
		return false, nil
	}
	rec := old.Clone()
	rec.State, rec.Log, rec.Reason = s.State, saga.CloneLog(s.Log), s.Reason
	rec.NextAt, rec.UpdatedAt, rec.SavedBy = round(s.NextAt), round(s.Now), s.Owner
	rec.Version++
	rec.Owner, rec.Until = "", time.Time{}
	if s.Keeps() {
		rec.Owner, rec.Until = s.Owner, round(s.Until)
	}
	t.s.sagas.put(rec)
	return true, nil
}

func (t sagaStore) Read(ctx context.Context, id retryproof.ID) (*saga.Record, error) {
	if err := t.s.lock(ctx); err != nil {
		return nil, err
	}
	defer t.s.mu.Unlock()
	r := t.s.sagas.byID[id]
	if r == nil {
		return nil, nil
	}
	out := r.Clone()
	return &out, nil
}

func (t sagaStore) List(ctx context.Context, q saga.Query) ([]saga.Record, error) {
	if err := t.s.lock(ctx); err != nil {
		return nil, err
	}
	defer t.s.mu.Unlock()
	var out []saga.Record
	for r := range t.s.sagas.all.all() {
		if len(out) >= q.Limit {
			break
		}
		fits := r.State == q.State || q.State == "" && !r.State.Final()
		if fits && (q.After == nil || bySagaAge(r, &saga.Record{ID: q.After.ID, CreatedAt: round(q.After.CreatedAt)}) > 0) {
			out = append(out, r.Clone())
		}
	}
	return out, nil
}

// markStore is saga.Marks.
type markStore struct{ s *Store }

func (t markStore) Mark(ctx context.Context, m saga.Mark) (saga.Mark, bool, error) {
	if err := m.Check(); err != nil {
		return saga.Mark{}, false, err
	}
	if err := t.s.lock(ctx); err != nil {
		return saga.Mark{}, false, err
	}
	defer t.s.mu.Unlock()
	there, known := t.s.sagas.marks[m.Key]
	if !known {
		there = m
		there.Result, there.CreatedAt = bytes.Clone(m.Result), round(m.CreatedAt)
		there.UpdatedAt = there.CreatedAt
		t.s.sagas.marks[m.Key] = there
	}
	there.Result = bytes.Clone(there.Result)
	return there, !known, nil
}

func (t markStore) Move(ctx context.Context, m saga.MarkMove) (bool, error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	if err := t.s.lock(ctx); err != nil {
		return false, err
	}
	defer t.s.mu.Unlock()
	there, known := t.s.sagas.marks[m.Key]
	if !known || there.State != m.From {
		return false, nil
	}
	there.State, there.Result, there.UpdatedAt = m.To, bytes.Clone(m.Result), round(m.Now)
	t.s.sagas.marks[m.Key] = there
	return true, nil
}
