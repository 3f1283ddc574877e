package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retryproof/retryproof"
)

// group lets callers that wait at the same time share one transaction. While one
// transaction of it is on its way, the others gather, and go together when it is back;
// a lone caller goes alone at once. The statements of a group are sent in one round
// trip.
//
// Nobody waits for another's lock for longer than groupLockTimeout: a lone operation
// that takes longer goes on outside of the group.
//
// No caller spoils another's verdict: when a statement of a group fails, or waits for
// a lock for longer than groupLockTimeout, the whole group is rolled back and each
// goes alone, on a connection of its own. A COMMIT whose answer is lost is Unknown for
// all of them.
type group struct {
	s       *Store
	max     int
	mu      sync.Mutex
	busy    bool
	waiting []*operation
}

// groupLockTimeout is short, since everybody waits for it.
const groupLockTimeout = 100 * time.Millisecond

type operation struct {
	ctx  context.Context
	st   statement
	sort string // groups lock rows in this order
	done chan error
}

// errAlone tells an operation that its group was rolled back.
var errAlone = errors.New("postgres: the group was rolled back")

func newGroup(s *Store) *group {
	g := &group{s: s, max: s.config.MaxGroup}
	if level := s.config.Isolation; level != "" && level != pgx.ReadCommitted {
		g.max = 1 // one snapshot for many callers would make them fail together
	}
	return g
}

// do runs one statement in a transaction. When it returns an error, nothing that the
// statement scans into may be looked at: the transaction may still be on its way.
func (g *group) do(ctx context.Context, sort string, st statement) error {
	if g.max <= 1 {
		return g.s.write(ctx, st)
	}
	g.mu.Lock()
	if !g.busy {
		g.busy = true
		g.mu.Unlock()
		return g.lead(ctx, st)
	}
	op := &operation{ctx, st, sort, make(chan error, 1)}
	g.waiting = append(g.waiting, op)
	g.mu.Unlock()
	select {
	case err := <-op.done:
		if errors.Is(err, errAlone) {
			return g.s.write(ctx, st)
		}
		return err
	case <-ctx.Done():
		return g.giveUp(op)
	}
}

// lead runs a lone operation while the others gather. They wait for it for
// groupLockTimeout: one that takes longer, since somebody holds a lock that it needs,
// goes on outside of the group.
func (g *group) lead(ctx context.Context, st statement) error {
	next := sync.OnceFunc(g.next)
	defer next()
	patience := time.AfterFunc(groupLockTimeout, next)
	defer patience.Stop()
	return g.s.write(ctx, st)
}

// giveUp answers a caller whose context has ended.
func (g *group) giveUp(op *operation) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, op); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return notDone(context.Cause(op.ctx))
	}
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown,
		Message: "the caller stopped waiting for COMMIT", Hint: "read it back", Err: context.Cause(op.ctx)}
}

// next starts what gathered meanwhile.
func (g *group) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), g.max)
	if n == 0 {
		g.busy = false
		return
	}
	ops := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	go func() {
		if len(ops) == 1 {
			ops[0].done <- g.lead(ops[0].ctx, ops[0].st)
			return
		}
		defer g.next()
		g.run(ops)
	}()
}

// run sends the operations in one transaction.
func (g *group) run(ops []*operation) {
	slices.SortStableFunc(ops, func(a, b *operation) int { return cmp.Compare(a.sort, b.sort) })
	statements := make([]statement, len(ops))
	for i, op := range ops {
		statements[i] = op.st
	}
	ctx, cancel := longest(ops)
	defer cancel()
	opening := g.s.config
	if opening.LockTimeout == 0 || opening.LockTimeout > groupLockTimeout {
		opening.LockTimeout = groupLockTimeout
	}
	err := g.s.writeOnce(ctx, opening.opening(), statements)
	if err != nil && retryproof.OutcomeOf(err) == retryproof.NotDone {
		err = errAlone
	}
	for _, op := range ops {
		op.done <- err
	}
}

// longest is a context that ends when the last caller's does.
func longest(ops []*operation) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(ops[0].ctx)
	var last time.Time
	for _, op := range ops {
		until, ok := op.ctx.Deadline()
		if !ok {
			return context.WithCancel(ctx)
		}
		if until.After(last) {
			last = until
		}
	}
	return context.WithDeadline(ctx, last)
}
