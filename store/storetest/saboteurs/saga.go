package saboteurs

import (
	"context"
	"sync"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/saga"
	"github.com/retryproof/retryproof/store/storetest"
)

// sagaFaults are wrong about sagas and about the marks of their participants.
func sagaFaults() []Saboteur {
	return []Saboteur{
		{"saga-start-overwrites", "Start replaces the input of a saga that is there", "StartKeepsTheFirst", inSagas(startOverwrites)},
		{"saga-stale-at-the-boundary", "a lease is stale at exactly its end and margin: <= for <", "LeaseIsAliveAtItsEndAndMargin", inSagas(sagaStaleEarly)},
		{"saga-due-early", "a saga is due 1 µs before its time", "SagaIsDueAtExactlyItsTime", inSagas(sagaDueEarly)},
		{"saga-save-by-anybody", "Save does not compare the owner", "SaveNeedsTheOwnerAndTheVersion", inSagas(sagaSaveByAnybody)},
		{"saga-save-any-version", "Save does not compare the version", "SaveNeedsTheOwnerAndTheVersion", inSagas(sagaSaveAnyVersion)},
		{"saga-lease-keeps-the-saver", "a lease leaves SavedBy, so that it looks like an owner's lost write", "LeaseForgetsWhoSavedLast", inSagas(sagaKeepsSaver)},
		{"saga-lease-of-other-kinds", "Lease of one saga does not ask for its kind", "LeaseTakesItsOwnKindsOnly", inSagas(sagaAnyKind)},
		{"saga-lists-the-final", "List without a state shows what is final", "ListIsOrderedAndPaged", inSagas(sagaListsFinal)},
		{"saga-mark-lost-to-the-original", "an original that meets CANCELLED is told STARTED", "FirstMarkStays", inMarks(func(m saga.Marks) saga.Marks { return lateOriginalRuns{m} })},
		{"saga-mark-moves-from-any-state", "Move does not compare the state", "MarkMovesFromItsStateOnly", inMarks(func(m saga.Marks) saga.Marks { return movesAlways{m} })},
	}
}

func inSagas(plant func(saga.Store) sagas) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Sagas = plant(s.Sagas)
		return s
	}
}

func inMarks(plant func(saga.Marks) saga.Marks) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Marks = plant(s.Marks)
		return s
	}
}

// sagas is a saga.Store with some methods replaced.
type sagas struct {
	saga.Store
	start func(context.Context, saga.Start) (saga.Record, error)
	lease func(context.Context, saga.Lease) (*saga.Record, error)
	save  func(context.Context, saga.Save) (bool, error)
	read  func(context.Context, retryproof.ID) (*saga.Record, error)
	list  func(context.Context, saga.Query) ([]saga.Record, error)
}

func (s sagas) Start(ctx context.Context, a saga.Start) (saga.Record, error) {
	if s.start != nil {
		return s.start(ctx, a)
	}
	return s.Store.Start(ctx, a)
}

func (s sagas) Lease(ctx context.Context, a saga.Lease) (*saga.Record, error) {
	if s.lease != nil {
		return s.lease(ctx, a)
	}
	return s.Store.Lease(ctx, a)
}

func (s sagas) Save(ctx context.Context, a saga.Save) (bool, error) {
	if s.save != nil {
		return s.save(ctx, a)
	}
	return s.Store.Save(ctx, a)
}

func (s sagas) Read(ctx context.Context, id retryproof.ID) (*saga.Record, error) {
	if s.read != nil {
		return s.read(ctx, id)
	}
	return s.Store.Read(ctx, id)
}

func (s sagas) List(ctx context.Context, q saga.Query) ([]saga.Record, error) {
	if s.list != nil {
		return s.list(ctx, q)
	}
	return s.Store.List(ctx, q)
}

func startOverwrites(right saga.Store) sagas {
	return sagas{Store: right, start: func(ctx context.Context, a saga.Start) (saga.Record, error) {
		r, err := right.Start(ctx, a)
		r.Input = a.Input
		return r, err
	}}
}

func sagaStaleEarly(right saga.Store) sagas {
	return sagas{Store: right, lease: func(ctx context.Context, l saga.Lease) (*saga.Record, error) {
		l.Margin -= clock.Precision
		return right.Lease(ctx, l)
	}}
}

func sagaDueEarly(right saga.Store) sagas {
	return sagas{Store: right, lease: func(ctx context.Context, l saga.Lease) (*saga.Record, error) {
		l.Now, l.Margin = l.Now.Add(clock.Precision), l.Margin+clock.Precision
		return right.Lease(ctx, l)
	}}
}

func sagaSaveByAnybody(right saga.Store) sagas {
	return sagas{Store: right, save: func(ctx context.Context, s saga.Save) (bool, error) {
		if r, err := right.Read(ctx, s.ID); err == nil && r != nil && r.Owner != "" && s.Owner != "" {
			s.Owner = r.Owner
		}
		return right.Save(ctx, s)
	}}
}

func sagaSaveAnyVersion(right saga.Store) sagas {
	return sagas{Store: right, save: func(ctx context.Context, s saga.Save) (bool, error) {
		if r, err := right.Read(ctx, s.ID); err == nil && r != nil {
			s.Version = r.Version
		}
		return right.Save(ctx, s)
	}}
}

// sagaKeepsSaver remembers who saved each saga last.
func sagaKeepsSaver(right saga.Store) sagas {
	var last sync.Map
	return sagas{Store: right,
		save: func(ctx context.Context, s saga.Save) (bool, error) {
			moved, err := right.Save(ctx, s)
			if moved {
				last.Store(s.ID, s.Owner)
			}
			return moved, err
		},
		read: func(ctx context.Context, id retryproof.ID) (*saga.Record, error) {
			r, err := right.Read(ctx, id)
			if r != nil {
				if by, ok := last.Load(id); ok {
					r.SavedBy = by.(string)
				}
			}
			return r, err
		},
	}
}

func sagaAnyKind(right saga.Store) sagas {
	return sagas{Store: right, lease: func(ctx context.Context, l saga.Lease) (*saga.Record, error) {
		if r, err := right.Read(ctx, l.ID); err == nil && r != nil {
			l.Names = []string{r.Name}
		}
		return right.Lease(ctx, l)
	}}
}

func sagaListsFinal(right saga.Store) sagas {
	return sagas{Store: right, list: func(ctx context.Context, q saga.Query) ([]saga.Record, error) {
		out, err := right.List(ctx, q)
		if err == nil && q.State == "" && len(out) < q.Limit {
			q.State = saga.Completed
			final, finalErr := right.List(ctx, q)
			out, err = append(out, final...), finalErr
		}
		return out, err
	}}
}

type lateOriginalRuns struct{ saga.Marks }

func (l lateOriginalRuns) Mark(ctx context.Context, m saga.Mark) (saga.Mark, bool, error) {
	there, first, err := l.Marks.Mark(ctx, m)
	if m.State == saga.MarkStarted {
		there.State = saga.MarkStarted
	}
	return there, first, err
}

type movesAlways struct{ saga.Marks }

func (l movesAlways) Move(ctx context.Context, m saga.MarkMove) (bool, error) {
	if moved, err := l.Marks.Move(ctx, m); err != nil || moved {
		return moved, err
	}
	for _, from := range []saga.MarkState{saga.MarkStarted, saga.MarkDone} {
		m.From = from
		if moved, err := l.Marks.Move(ctx, m); err == nil && moved {
			return true, nil
		}
	}
	return false, nil
}
