package memory

import (
	"bytes"
	"cmp"
	"context"

	"github.com/retryproof/retryproof/version"
)

// Versions is the store of high-water marks.
func (s *Store) Versions() version.Store { return versionStore{s} }

type subject struct {
	line version.Line
	name string
}

// versionRows are the marks, and each line's mark with the highest version. The zero
// value is empty.
type versionRows struct {
	bySubject map[subject]*version.Mark
	last      map[version.Line]*version.Mark
}

func (v *versionRows) find(l version.Line, name string) *version.Mark {
	return v.bySubject[subject{l, name}]
}

func (v *versionRows) put(m version.Mark) {
	if v.bySubject == nil {
		v.bySubject, v.last = map[subject]*version.Mark{}, map[version.Line]*version.Mark{}
	}
	m.At = round(m.At)
	v.bySubject[subject{m.Line, m.Subject}] = &m
	if have := v.last[m.Line]; have == nil || cmp.Or(cmp.Compare(have.Version, m.Version), cmp.Compare(have.Subject, m.Subject)) <= 0 {
		v.last[m.Line] = &m
	}
}

func markOut(m *version.Mark) *version.Mark {
	if m == nil {
		return nil
	}
	out := *m
	out.Value = bytes.Clone(m.Value)
	return &out
}

// versionStore is version.Store.
type versionStore struct{ s *Store }

func (v versionStore) Apply(ctx context.Context, w version.Write) (version.Result, error) {
	w, err := version.Check(w)
	if err != nil {
		return version.Result{}, err
	}
	if err := v.s.lock(ctx); err != nil {
		return version.Result{}, err
	}
	defer v.s.mu.Unlock()
	w.Now = round(w.Now)
	out := version.Next(markOut(v.s.versions.find(w.Line, w.Subject)), w)
	if out.Verdict == version.Applied {
		v.s.versions.put(*markOut(&out.Mark))
	}
	return out, nil
}

func (v versionStore) Last(ctx context.Context, l version.Line) (*version.Mark, error) {
	if err := v.s.lock(ctx); err != nil {
		return nil, err
	}
	defer v.s.mu.Unlock()
	return markOut(v.s.versions.last[l]), nil
}

func (v versionStore) Look(ctx context.Context, l version.Line, name string) (*version.Mark, error) {
	if err := v.s.lock(ctx); err != nil {
		return nil, err
	}
	defer v.s.mu.Unlock()
	return markOut(v.s.versions.find(l, name)), nil
}

// ApplyVersion does what version.Store's Apply does, as a part of this transaction.
func (tx *Tx) ApplyVersion(ctx context.Context, w version.Write) (version.Result, error) {
	w, err := version.Check(w)
	if err != nil {
		return version.Result{}, err
	}
	if err := tx.open(ctx); err != nil {
		return version.Result{}, err
	}
	defer tx.mu.Unlock()
	w.Now = round(w.Now)
	key := subject{w.Line, w.Subject}
	have, mine := tx.marks[key] // what this transaction has written already
	if !mine {
		tx.s.mu.Lock()
		read := tx.s.versions.bySubject[key]
		tx.s.mu.Unlock()
		tx.reads = append(tx.reads, func(s *Store) bool { return s.versions.bySubject[key] == read })
		have = markOut(read)
	}
	out := version.Next(markOut(have), w)
	if out.Verdict == version.Applied {
		if tx.marks == nil {
			tx.marks = map[subject]*version.Mark{}
		}
		written := markOut(&out.Mark)
		tx.marks[key] = written
		tx.ops = append(tx.ops, func(s *Store) { s.versions.put(*written) })
	}
	return out, nil
}
