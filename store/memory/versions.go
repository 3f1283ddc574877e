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

// versionRows are the marks, and each line's marks in order. The zero value is empty.
type versionRows struct {
	bySubject map[subject]*version.Mark
	byLine    map[version.Line]*index[*version.Mark]
}

func compareMarks(a, b *version.Mark) int {
	return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Subject, b.Subject))
}

func (v *versionRows) find(l version.Line, name string) *version.Mark {
	return v.bySubject[subject{l, name}]
}

func (v *versionRows) put(m version.Mark) {
	if v.bySubject == nil {
		v.bySubject, v.byLine = map[subject]*version.Mark{}, map[version.Line]*index[*version.Mark]{}
	}
	marks := v.byLine[m.Line]
	if marks == nil {
		marks = &index[*version.Mark]{compare: compareMarks}
		v.byLine[m.Line] = marks
	}
	m.At = round(m.At)
	key := subject{m.Line, m.Subject}
	if have := v.bySubject[key]; have != nil {
		marks.remove(have)
	}
	v.bySubject[key] = &m
	marks.add(&m)
}

// recent are the line's marks that are lower than after, highest first.
func (v *versionRows) recent(l version.Line, after version.Mark, limit int) []version.Mark {
	marks := v.byLine[l]
	if marks == nil {
		return nil
	}
	b, at := len(marks.blocks), 0
	if after.Version > 0 {
		b, at, _ = marks.find(&after)
	}
	var out []version.Mark
	for len(out) < limit {
		if at == 0 {
			if b == 0 {
				break
			}
			b--
			at = len(marks.blocks[b])
		}
		at--
		out = append(out, *markOut(marks.blocks[b][at]))
	}
	return out
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
	if last := v.s.versions.recent(l, version.Mark{}, 1); len(last) > 0 {
		return &last[0], nil
	}
	return nil, nil
}

func (v versionStore) Recent(ctx context.Context, l version.Line, after version.Mark, limit int) ([]version.Mark, error) {
	if err := v.s.lock(ctx); err != nil {
		return nil, err
	}
	defer v.s.mu.Unlock()
	return v.s.versions.recent(l, after, limit), nil
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
