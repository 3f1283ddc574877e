package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/postgres"
)

func newEvent(id string) retryproof.Event {
	return retryproof.Event{ID: id, Type: "order.paid", Group: "m1", Body: []byte("{}"), At: noon}
}

// transaction is a program's own, over one of the ways to PostgreSQL.
type transaction interface {
	exec(statement string) error
	within() postgres.Tx
	end(commit bool) error
}

type pgxTransaction struct {
	ctx context.Context
	tx  pgx.Tx
}

func (p pgxTransaction) exec(s string) error { _, err := p.tx.Exec(p.ctx, s); return err }
func (p pgxTransaction) within() postgres.Tx { return postgres.Within(p.tx) }
func (p pgxTransaction) end(commit bool) error {
	if commit {
		return p.tx.Commit(p.ctx)
	}
	return p.tx.Rollback(p.ctx)
}

type sqlTransaction struct{ tx *sql.Tx }

func (s sqlTransaction) exec(statement string) error { _, err := s.tx.Exec(statement); return err }
func (s sqlTransaction) within() postgres.Tx         { return postgres.WithinSQL(s.tx) }
func (s sqlTransaction) end(commit bool) error {
	if commit {
		return s.tx.Commit()
	}
	return s.tx.Rollback()
}

// eachDriver runs a test over pgx, pgx's database/sql driver, and one that wraps errors.
func eachDriver(t *testing.T, test func(t *testing.T, s *postgres.Store, begin func() transaction)) {
	t.Parallel()
	overSQL := func(open func(url string) *sql.DB) func(*testing.T, *postgres.Store, string) func() transaction {
		return func(t *testing.T, _ *postgres.Store, url string) func() transaction {
			db := open(url)
			t.Cleanup(func() { _ = db.Close() })
			return func() transaction {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				return sqlTransaction{tx}
			}
		}
	}
	ways := map[string]func(*testing.T, *postgres.Store, string) func() transaction{
		"pgx": func(t *testing.T, s *postgres.Store, _ string) func() transaction {
			return func() transaction {
				tx, err := s.Pool().Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return pgxTransaction{t.Context(), tx}
			}
		},
		"stdlib": overSQL(func(url string) *sql.DB {
			config, err := pgx.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			return stdlib.OpenDB(*config)
		}),
		"wrapped": overSQL(func(url string) *sql.DB { return sql.OpenDB(wrapping{url}) }),
	}
	for name, way := range ways { // order: parallel
		t.Run("store=postgres/driver="+name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			s := open(t, postgres.Config{URL: url})
			run(t, url, "CREATE TABLE IF NOT EXISTS audit (what text NOT NULL)")
			run(t, url, "TRUNCATE audit")
			test(t, s, way(t, s, url))
		})
	}
}

// case 16
func TestADuplicateLeavesTheCallersTransactionUsable(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *postgres.Store, begin func() transaction) {
		key := retryproof.InboxKey{Consumer: "ledger", Source: "psp", EventID: "evt_1"}
		for turn := range 2 {
			tx := begin()
			in := tx.within()
			first, err := in.Once(t.Context(), key, noon)
			if err != nil || first != (turn == 0) {
				t.Fatalf("turn %d: got first %v and error %v", turn, first, err)
			}
			intent := notify.Intent{Key: notify.Key{EventID: "e1", Channel: "push"}, To: "u1", CreatedAt: noon}
			err = errors.Join(in.Publish(t.Context(), newEvent("e1")), in.Intend(t.Context(), intent),
				tx.exec("INSERT INTO audit VALUES ('seen')"), tx.end(true))
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := count(t, s, "audit"); got != 2 {
			t.Errorf("got %d audit rows, want 2", got)
		}
		if got := count(t, s, "outbox"); got != 1 {
			t.Errorf("got %d events, want 1", got)
		}
	})
}

// case 34
func TestNothingIsPublishedByATransactionThatDoesNotCommit(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *postgres.Store, begin func() transaction) {
		tx := begin()
		in := tx.within()
		err := errors.Join(tx.exec("SAVEPOINT inner_one"), in.Publish(t.Context(), newEvent("e1")),
			tx.exec("RELEASE SAVEPOINT inner_one"), tx.end(false))
		if err != nil {
			t.Fatal(err)
		}
		if got := count(t, s, "outbox"); got != 0 {
			t.Errorf("after the outer rollback: got %d events, want 0", got)
		}
		for name, late := range map[string]postgres.Tx{"finished": in, "nil": postgres.WithinSQL(nil)} { // order: each is asked alone
			err := late.Publish(t.Context(), newEvent("e2"))
			if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeInvalid {
				t.Errorf("%s: got error %v, want NotDone and CodeInvalid", name, err)
			}
		}
		tx = begin()
		err = errors.Join(tx.exec("SAVEPOINT inner_one"), tx.within().Publish(t.Context(), newEvent("e3")),
			tx.exec("ROLLBACK TO SAVEPOINT inner_one"), tx.exec("INSERT INTO audit VALUES ('kept')"), tx.end(true))
		if err != nil {
			t.Fatal(err)
		}
		if events, rows := count(t, s, "outbox"), count(t, s, "audit"); events != 0 || rows != 1 {
			t.Errorf("after the inner rollback: got %d events and %d audit rows, want 0 and 1", events, rows)
		}
	})
}

func TestSettleCommitsOrRollsBackWithTheCallersRows(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *postgres.Store, begin func() transaction) {
		scope := retryproof.Scope{Endpoint: "orders", Caller: "u1", Key: "K1"}
		id := retryproof.Of("order", scope)
		b := effect.Begin{Scope: scope, GuardID: id, Fingerprint: "1=x", Owner: "a", Now: noon, Until: noon.Add(5 * time.Second)}
		if _, err := s.Effects().Begin(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		settle := effect.Settle{ID: id, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "a", Fenced: true, Now: noon,
			Postings: []ledger.Posting{{Account: "merchant:m1", Currency: "USD", Amount: 5, Ref: "r"}, {Account: "cash", Currency: "USD", Amount: -5, Ref: "r"}},
			Events:   []retryproof.Event{newEvent("e1")},
			Claim:    &effect.Completion{Scope: scope, Owner: "a", Answer: &effect.Answer{Status: 200}, ExpiresAt: noon.Add(time.Hour)}}
		for turn, commit := range []bool{false, true, true} {
			tx := begin()
			out, err := tx.within().Settle(t.Context(), settle)
			if err != nil {
				t.Fatal(err)
			}
			if want := turn < 2; out.Moved != want || out.Completed != want || out.Guard.State != effect.Succeeded {
				t.Errorf("turn %d: got %+v, want moved and completed %v", turn, out, want)
			}
			if err := errors.Join(tx.exec("INSERT INTO audit VALUES ('settled')"), tx.end(commit)); err != nil {
				t.Fatal(err)
			}
		}
		seen, err := s.Effects().Look(t.Context(), effect.Look{Scope: scope, GuardID: id, Now: noon})
		if err != nil || seen.Claim.Answer == nil || seen.Guard.State != effect.Succeeded {
			t.Errorf("got %+v and error %v, want a completed claim and a final guard", seen, err)
		}
		if got, err := s.Payments().Ledger.Balance(t.Context(), "merchant:m1", "USD"); err != nil || got != 5 {
			t.Errorf("got balance %d and error %v, want 5", got, err)
		}
		if events, rows := count(t, s, "outbox"), count(t, s, "audit"); events != 1 || rows != 2 {
			t.Errorf("got %d events and %d audit rows, want 1 and 2", events, rows)
		}
	})
}

func count(t *testing.T, s *postgres.Store, from string) (n int) {
	t.Helper()
	if err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// wrapping is a driver that hides the types of the errors of the driver below it, as
// drivers for tracing do. It has the smallest set of methods that works.
type wrapping struct{ url string }

func (w wrapping) Driver() driver.Driver { return w }
func (w wrapping) Open(string) (driver.Conn, error) {
	return nil, errors.New("use OpenDB")
}

func (w wrapping) Connect(ctx context.Context) (driver.Conn, error) {
	config, err := pgx.ParseConfig(w.url)
	if err != nil {
		return nil, err
	}
	conn, err := stdlib.GetConnector(*config).Connect(ctx)
	if err != nil {
		return nil, opaque(err)
	}
	return wrappedConn{conn}, nil
}

// opaque keeps an error's words only.
func opaque(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, driver.ErrBadConn) {
		return err
	}
	return errors.New("traced: " + err.Error())
}

type wrappedConn struct{ driver.Conn }

func (c wrappedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return tx, opaque(err)
}

func (c wrappedConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, q, args)
	return r, opaque(err)
}

func (c wrappedConn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, q, args)
	return rows, opaque(err)
}
