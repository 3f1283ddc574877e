package sqlite

import (
	"context"
	"database/sql"
)

// writer owns the only connection that writes. Callers' operations share commits:
// whoever finds the connection free becomes the leader and runs everything that
// waits, up to a limit, in one transaction. When one of them fails, each is run again
// alone, so that none spoils another's verdict: an operation may run twice and must
// give the same both times. There is no background goroutine, and a lone caller
// commits alone.
//
// Crash points: before COMMIT nothing of the group is there, after it everything is,
// and every caller is told the same.
type writer struct {
	conn *sql.Conn
	q    *prepared
	max  int
	lead chan struct{} // holds one token: the right to use conn
	todo chan *operation
}

type operation struct {
	run  func(ctx context.Context, q query) error
	done chan error
}

func newWriter(conn *sql.Conn, limit int) *writer {
	w := &writer{conn: conn, q: newPrepared(conn), max: limit, lead: make(chan struct{}, 1), todo: make(chan *operation, 16*limit)}
	w.lead <- struct{}{}
	return w
}

// do runs op in a transaction and returns when it is committed. A context that ends
// before the operation was queued is NotDone; afterwards do waits for the commit,
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
			w.commitGroup()
			w.lead <- struct{}{}
		}
	}
}

// alone runs f while nobody else uses the connection.
func (w *writer) alone(f func()) {
	<-w.lead
	f()
	w.lead <- struct{}{}
}

// commitGroup runs what waits. The callers' contexts do not reach it: one caller
// that goes away must not interrupt the statements of the others.
func (w *writer) commitGroup() {
	var group []*operation
	for len(group) < w.max {
		select {
		case op := <-w.todo:
			group = append(group, op)
			continue
		default:
		}
		break
	}
	if len(group) == 0 {
		return
	}
	spoiled, err := w.transact(group)
	for _, op := range group {
		if spoiled && len(group) > 1 {
			_, err = w.transact([]*operation{op})
		}
		op.done <- err
	}
}

// transact runs the group in one transaction, all or nothing. spoiled says that one
// of the operations failed; another error is everybody's.
func (w *writer) transact(group []*operation) (spoiled bool, err error) {
	ctx := context.Background()
	if _, err := w.q.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return false, notDone(err)
	}
	for _, op := range group {
		if err := op.run(ctx, w.q); err != nil {
			w.rollback(ctx)
			return true, notDone(err)
		}
	}
	if _, err := w.q.exec(ctx, "COMMIT"); err != nil {
		w.rollback(ctx)
		return false, notCommitted(err)
	}
	return false, nil
}

// rollback ends the transaction; it is an error when SQLite has ended it already.
func (w *writer) rollback(ctx context.Context) { _, _ = w.q.exec(ctx, "ROLLBACK") }
