package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/sqlite"
)

var noon = time.Date(2026, 3, 29, 12, 0, 0, 123456000, time.UTC)

func newEvent(id string) retryproof.Event {
	return retryproof.Event{ID: id, Type: "order.paid", Group: "m1", Body: []byte("{}"), At: noon}
}

// database is a store beside the connection of a program that uses it.
func database(t *testing.T) (*sqlite.Store, *sql.DB) {
	t.Helper()
	s, db := sqliteDB(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db"), Migrate: true})
	exec(t, db, "CREATE TABLE audit (what TEXT NOT NULL) STRICT")
	return s, db
}

func sqliteDB(t *testing.T, config sqlite.Config) (*sqlite.Store, *sql.DB) {
	t.Helper()
	s := open(t, config)
	db, err := sql.Open("sqlite", config.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return s, db
}

type execer interface {
	Exec(statement string, args ...any) (sql.Result, error)
}

func exec(t *testing.T, on execer, statement string, args ...any) {
	t.Helper()
	if _, err := on.Exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func waiting(t *testing.T, s *sqlite.Store) int64 {
	t.Helper()
	st, err := s.Payments().Outbox.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st.Waiting
}

func count(t *testing.T, db *sql.DB, from string) int {
	t.Helper()
	var n int
	if err := db.QueryRow("SELECT count(*) FROM " + from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// case 16
func TestADuplicateLeavesTheCallersTransactionUsable(t *testing.T) {
	t.Parallel()
	s, db := database(t)
	key := retryproof.InboxKey{Consumer: "ledger", Source: "psp", EventID: "evt_1"}
	for turn := range 2 {
		tx := begin(t, db)
		in := sqlite.Within(tx)
		first, err := in.Once(t.Context(), key, noon)
		if err != nil || first != (turn == 0) {
			t.Fatalf("turn %d: got first %v and error %v", turn, first, err)
		}
		if err := in.Publish(t.Context(), newEvent("e1")); err != nil {
			t.Fatal(err)
		}
		intent := notify.Intent{Key: notify.Key{EventID: "e1", Channel: "push"}, To: "u1", CreatedAt: noon}
		if err := in.Intend(t.Context(), intent); err != nil {
			t.Fatal(err)
		}
		exec(t, tx, "INSERT INTO audit VALUES ('seen')")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if got := count(t, db, "audit"); got != 2 {
		t.Errorf("got %d audit rows, want 2", got)
	}
	if got := waiting(t, s); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
}

// case 34
func TestNothingIsPublishedByATransactionThatDoesNotCommit(t *testing.T) {
	t.Parallel()
	s, db := database(t)
	tx := begin(t, db)
	in := sqlite.Within(tx)
	exec(t, tx, "SAVEPOINT inner")
	if err := in.Publish(t.Context(), newEvent("e1")); err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "RELEASE inner")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := waiting(t, s); got != 0 {
		t.Errorf("after the outer rollback: got %d events, want 0", got)
	}
	for name, late := range map[string]sqlite.Tx{"a finished transaction": in, "no transaction": sqlite.Within(nil)} {
		err := late.Publish(t.Context(), newEvent("e2"))
		if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeInvalid {
			t.Errorf("%s: got error %v, want NotDone and CodeInvalid", name, err)
		}
	}
	tx = begin(t, db)
	in = sqlite.Within(tx)
	exec(t, tx, "SAVEPOINT inner")
	if err := in.Publish(t.Context(), newEvent("e3")); err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "ROLLBACK TO inner")
	exec(t, tx, "INSERT INTO audit VALUES ('kept')")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := waiting(t, s); got != 0 || count(t, db, "audit") != 1 {
		t.Errorf("after the inner rollback: got %d events and %d audit rows, want 0 and 1", got, count(t, db, "audit"))
	}
}

func TestSettleCommitsOrRollsBackWithTheCallersRows(t *testing.T) {
	t.Parallel()
	s, db := database(t)
	scope := retryproof.Scope{Endpoint: "orders", Caller: "u1", Key: "K1"}
	id := retryproof.Of("order", scope)
	print := retryproof.FingerprintOf(retryproof.Int("n", 1))
	b := effect.Begin{Scope: scope, GuardID: id, Fingerprint: print, Owner: "a", Now: noon, Until: noon.Add(5 * time.Second)}
	if _, err := s.Effects().Begin(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	settle := effect.Settle{ID: id, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "a", Fenced: true, Now: noon,
		Postings: []ledger.Posting{{Account: "merchant:m1", Currency: "USD", Amount: 5, Ref: "r"}, {Account: "cash", Currency: "USD", Amount: -5, Ref: "r"}},
		Events:   []retryproof.Event{newEvent("e1")},
		Claim:    &effect.Completion{Scope: scope, Owner: "a", Answer: &effect.Answer{Status: 200}, ExpiresAt: noon.Add(time.Hour)}}
	for _, commit := range []bool{false, true, true} {
		tx := begin(t, db)
		exec(t, tx, "INSERT INTO audit VALUES ('settled')")
		out, err := sqlite.Within(tx).Settle(t.Context(), settle)
		if err != nil {
			t.Fatal(err)
		}
		if done := out.Guard.SettledBy == "a" && out.Guard.State == effect.Succeeded; !done {
			t.Errorf("got guard %+v, want one that is settled", out.Guard)
		}
		if commit {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
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
	rows, err := s.Payments().Outbox.Claim(t.Context(), outbox.Claim{Relay: "r1", Now: noon, Until: noon.Add(time.Second), Limit: 10})
	if err != nil || len(rows) != 1 {
		t.Errorf("got %d events and error %v, want 1", len(rows), err)
	}
}
