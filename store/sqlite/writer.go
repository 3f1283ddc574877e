package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/retryproof/retryproof"
)

// writer owns the only connection that writes. Callers' operations share commits:
// whoever finds the connection free becomes the leader and runs everything that
// waits, up to a limit, in one transaction. When one of them fails, each is run again
// alone, so that none spoils another's verdict: an operation may run twice and must
// give the same both times. There is no background goroutine, and a lone caller
// commits alone. A caller whose context ends while its operation still waits, behind
// another process's lock for example, takes it back.
//
// Crash points: before COMMIT nothing of the group is there, after it everything is,
// and every caller is told the same.
type writer struct {
	conn *sql.Conn
	q    *prepared
	max  int
	// tries is how often the write lock is asked for, each time for lockPause, before
	// it counts as held by another.
	tries int
	lead  chan struct{} // holds one token: the right to use conn
	todo  chan *operation
}

// lockPause is how long SQLite waits for another process's lock at a time. It cannot
// be interrupted meanwhile, so it is short.
const lockPause = 50 * time.Millisecond

type operation struct {
	run   func(ctx context.Context, q query) error
	done  chan error
	state atomic.Int32
}

// What became of an operation: it waits, a leader runs it, or its caller took it back.
const (
	waits int32 = iota
	taken
	left
)

func newWriter(conn *sql.Conn, config Config) *writer {
	w := &writer{conn: conn, q: newPrepared(conn), max: config.MaxGroup, lead: make(chan struct{}, 1), todo: make(chan *operation, 16*config.MaxGroup)}
	w.tries = max(1, int(config.BusyTimeout/lockPause))
	w.lead <- struct{}{}
	return w
}

// do runs op in a transaction and returns when it is committed. A context that ends
// before a leader took the operation is NotDone; afterwards do waits for the commit,
// which is local and short.
func (w *writer) do(ctx context.Context, run func(ctx context.Context, q query) error) error {
	if ctx.Err() != nil {
		return notDone(context.Cause(ctx))
	}
	op := &operation{run: run, done: make(chan error, 1)}
	select {
	case w.todo <- op:
	case <-ctx.Done():
		return notDone(context.Cause(ctx))
	}
	for {
		select {
		case err := <-op.done:
			return err
		case <-w.lead:
			w.leadOnce(ctx)
		case <-ctx.Done():
			if op.state.CompareAndSwap(waits, left) {
				return notDone(context.Cause(ctx))
			}
			return <-op.done // a leader has it
		}
	}
}

// leadOnce commits what waits and gives the lead back. A panic of an operation is not
// caught: it is the caller's who leads. Before it goes on, nothing is written, and the
// others of the group are told so.
func (w *writer) leadOnce(ctx context.Context) {
	defer func() { w.lead <- struct{}{} }()
	w.commitGroup(ctx)
}

// alone runs f while nobody else uses the connection, even when f panics.
func (w *writer) alone(ctx context.Context, f func()) error {
	select {
	case <-w.lead:
	case <-ctx.Done():
		return notDone(context.Cause(ctx))
	}
	defer func() { w.lead <- struct{}{} }()
	f()
	return nil
}

// patiently begins a transaction, again and again while another process holds the lock
// and ctx lives.
func (w *writer) patiently(ctx context.Context, begin func() error) error {
	for try := 1; ; try++ {
		err := begin()
		if err == nil || try >= w.tries || ctx.Err() != nil || !held(err) {
			return err
		}
	}
}

// held reports that another connection has the lock.
func held(err error) bool {
	var failed *driver.Error
	return errors.As(err, &failed) && failed.Code()&0xff == sqlite3.SQLITE_BUSY
}

// commitGroup runs what waits, once it has the lock. The callers' contexts do not
// reach the statements: one caller that goes away must not interrupt those of the
// others. When the leader's own ends before there is a lock, another may lead.
func (w *writer) commitGroup(ctx context.Context) {
	if err := w.begin(ctx); err != nil {
		if ctx.Err() == nil {
			for _, op := range w.gather() {
				op.done <- notDone(err)
			}
		}
		return
	}
	group := w.gather()
	if len(group) == 0 {
		w.rollback()
		return
	}
	told := 0
	defer func() {
		if told < len(group) { // an operation has panicked
			w.rollback()
			for _, op := range group[told:] {
				op.done <- retryproof.Refused(retryproof.CodeUnavailable, "another operation of the same commit panicked", nil)
			}
		}
	}()
	spoiled, err := w.transact(group)
	for _, op := range group {
		if spoiled && len(group) > 1 {
			err = w.retry(op)
		}
		op.done <- err
		told++
	}
}

// gather takes what waits.
func (w *writer) gather() []*operation {
	var group []*operation
	for len(group) < w.max {
		select {
		case op := <-w.todo:
			if op.state.CompareAndSwap(waits, taken) {
				group = append(group, op)
			}
			continue
		default:
		}
		break
	}
	return group
}

// retry runs one operation of a spoiled group by itself.
func (w *writer) retry(op *operation) error {
	if err := w.begin(context.Background()); err != nil {
		return notDone(err)
	}
	_, err := w.transact([]*operation{op})
	return err
}

func (w *writer) begin(ctx context.Context) error {
	return w.patiently(ctx, func() error {
		_, err := w.q.exec(context.Background(), "BEGIN IMMEDIATE")
		return err
	})
}

// transact runs the group in the transaction that was begun, all or nothing. spoiled
// says that one of the operations failed; another error is everybody's.
func (w *writer) transact(group []*operation) (spoiled bool, err error) {
	ctx := context.Background()
	for _, op := range group {
		if err := op.run(ctx, w.q); err != nil {
			w.rollback()
			return true, notDone(err)
		}
	}
	if _, err := w.q.exec(ctx, "COMMIT"); err != nil {
		w.rollback()
		return false, notCommitted(err)
	}
	return false, nil
}

// rollback ends the transaction; it is an error when SQLite has ended it already.
func (w *writer) rollback() { _, _ = w.q.exec(context.Background(), "ROLLBACK") }
