package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// query is the little that the statements need: a connection in a transaction, the
// readers, or a user's transaction.
type query interface {
	exec(ctx context.Context, statement string, args ...any) (changed int64, err error)
	row(ctx context.Context, statement string, args ...any) scanner
	rows(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

type scanner interface{ Scan(dest ...any) error }

// failedScan hands an error on to whoever scans.
type failedScan struct{ err error }

func (f failedScan) Scan(...any) error { return f.err }

// preparer is a *sql.Conn or *sql.DB.
type preparer interface {
	PrepareContext(ctx context.Context, statement string) (*sql.Stmt, error)
}

// prepared runs statements that it prepares once. The set of statements is the
// program's, so it is bounded.
type prepared struct {
	on preparer
	mu sync.Mutex
	by map[string]*sql.Stmt
}

func newPrepared(on preparer) *prepared { return &prepared{on: on, by: map[string]*sql.Stmt{}} }

func (p *prepared) get(ctx context.Context, statement string) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.by[statement]; ok {
		return s, nil
	}
	s, err := p.on.PrepareContext(ctx, statement) //nolint:sqlclosecheck // kept as long as the connection
	if err == nil {
		p.by[statement] = s
	}
	return s, err
}

func (p *prepared) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	s, err := p.get(ctx, statement) //nolint:sqlclosecheck // kept as long as the connection
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (p *prepared) row(ctx context.Context, statement string, args ...any) scanner {
	s, err := p.get(ctx, statement) //nolint:sqlclosecheck // kept as long as the connection
	if err != nil {
		return failedScan{err}
	}
	return s.QueryRowContext(ctx, args...)
}

func (p *prepared) rows(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	s, err := p.get(ctx, statement) //nolint:sqlclosecheck // kept as long as the connection
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// inTx runs statements in a user's transaction.
type inTx struct{ tx *sql.Tx }

func (t inTx) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	r, err := t.tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (t inTx) row(ctx context.Context, statement string, args ...any) scanner {
	return t.tx.QueryRowContext(ctx, statement, args...)
}

func (t inTx) rows(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(ctx, statement, args...)
}
