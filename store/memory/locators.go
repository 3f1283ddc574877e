package memory

import (
	"bytes"
	"cmp"
	"context"

	"github.com/retryproof/retryproof/locator"
)

// Locators is the store of locators.
func (s *Store) Locators() locator.Store { return locatorStore{s} }

// folder is where items are listed.
type folder struct{ kind, owner, place string }

// locatorRows are the locators, and the items at each place by id. The zero value is
// empty.
type locatorRows struct {
	byName  map[locator.Name]*locator.Record
	byPlace map[folder]*index[*locator.Record]
}

// put replaces a record that is never changed in place.
func (l *locatorRows) put(r locator.Record) {
	if l.byName == nil {
		l.byName, l.byPlace = map[locator.Name]*locator.Record{}, map[folder]*index[*locator.Record]{}
	}
	r.CreatedAt, r.ChangedAt = round(r.CreatedAt), round(r.ChangedAt)
	if old := l.byName[r.Name]; old != nil && old.State == locator.Present {
		l.byPlace[folderOf(old)].remove(old)
	}
	l.byName[r.Name] = &r
	if r.State != locator.Present {
		return
	}
	f := folderOf(&r)
	if l.byPlace[f] == nil {
		l.byPlace[f] = &index[*locator.Record]{compare: func(a, b *locator.Record) int { return cmp.Compare(a.ID, b.ID) }}
	}
	l.byPlace[f].add(&r)
}

func folderOf(r *locator.Record) folder { return folder{r.Kind, r.Owner, r.Place} }

func recordOut(r *locator.Record) *locator.Record {
	if r == nil {
		return nil
	}
	out := *r
	out.Value = bytes.Clone(r.Value)
	return &out
}

// locatorStore is locator.Store.
type locatorStore struct{ s *Store }

func (l locatorStore) Put(ctx context.Context, p locator.Put) (locator.Result, error) {
	p, err := p.Check()
	if err != nil {
		return locator.Result{}, err
	}
	p.Now = round(p.Now)
	return l.change(ctx, p.Name, p.Next)
}

func (l locatorStore) Move(ctx context.Context, m locator.Move) (locator.Result, error) {
	if err := m.Check(); err != nil {
		return locator.Result{}, err
	}
	m.Now = round(m.Now)
	return l.change(ctx, m.Name, m.Next)
}

func (l locatorStore) Delete(ctx context.Context, d locator.Delete) (locator.Result, error) {
	if err := d.Check(); err != nil {
		return locator.Result{}, err
	}
	d.Now = round(d.Now)
	return l.change(ctx, d.Name, d.Next)
}

func (l locatorStore) change(ctx context.Context, n locator.Name, next func(*locator.Record) locator.Result) (locator.Result, error) {
	if err := l.s.lock(ctx); err != nil {
		return locator.Result{}, err
	}
	defer l.s.mu.Unlock()
	out := next(recordOut(l.s.locators.byName[n]))
	if writes(out.Verdict) {
		l.s.locators.put(*recordOut(out.Record))
	}
	return out, nil
}

func writes(v locator.Verdict) bool {
	return v == locator.Created || v == locator.Moved || v == locator.Deleted
}

func (l locatorStore) Look(ctx context.Context, n locator.Name) (*locator.Record, error) {
	if err := l.s.lock(ctx); err != nil {
		return nil, err
	}
	defer l.s.mu.Unlock()
	return recordOut(l.s.locators.byName[n]), nil
}

func (l locatorStore) List(ctx context.Context, q locator.List) ([]locator.Record, error) {
	if err := l.s.lock(ctx); err != nil {
		return nil, err
	}
	defer l.s.mu.Unlock()
	items := l.s.locators.byPlace[folder{q.Kind, q.Owner, q.Place}]
	if items == nil {
		return nil, nil
	}
	var out []locator.Record
	for r := range items.all() {
		if len(out) >= q.Limit {
			break
		}
		if r.ID > q.After {
			out = append(out, *recordOut(r))
		}
	}
	return out, nil
}

// PutItem does what locator.Store's Put does, as a part of this transaction.
func (tx *Tx) PutItem(ctx context.Context, p locator.Put) (locator.Result, error) {
	p, err := p.Check()
	if err != nil {
		return locator.Result{}, err
	}
	p.Now = round(p.Now)
	return tx.changeItem(ctx, p.Name, p.Next)
}

// MoveItem does what locator.Store's Move does, as a part of this transaction.
func (tx *Tx) MoveItem(ctx context.Context, m locator.Move) (locator.Result, error) {
	if err := m.Check(); err != nil {
		return locator.Result{}, err
	}
	m.Now = round(m.Now)
	return tx.changeItem(ctx, m.Name, m.Next)
}

// DeleteItem does what locator.Store's Delete does, as a part of this transaction.
func (tx *Tx) DeleteItem(ctx context.Context, d locator.Delete) (locator.Result, error) {
	if err := d.Check(); err != nil {
		return locator.Result{}, err
	}
	d.Now = round(d.Now)
	return tx.changeItem(ctx, d.Name, d.Next)
}

func (tx *Tx) changeItem(ctx context.Context, n locator.Name, next func(*locator.Record) locator.Result) (locator.Result, error) {
	if err := tx.open(ctx); err != nil {
		return locator.Result{}, err
	}
	defer tx.mu.Unlock()
	have, mine := tx.items[n] // what this transaction has written already
	if !mine {
		tx.s.mu.Lock()
		read := tx.s.locators.byName[n]
		tx.s.mu.Unlock()
		tx.reads = append(tx.reads, func(s *Store) bool { return s.locators.byName[n] == read })
		have = read
	}
	out := next(recordOut(have))
	if writes(out.Verdict) {
		if tx.items == nil {
			tx.items = map[locator.Name]*locator.Record{}
		}
		written := recordOut(out.Record)
		tx.items[n] = written
		tx.ops = append(tx.ops, func(s *Store) { s.locators.put(*written) })
	}
	return out, nil
}
