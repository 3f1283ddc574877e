package postgres_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/internal/testservice"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/postgres"
)

// scratch creates a database without any table that ends with the test.
func scratch(t *testing.T, suffix string) string {
	t.Helper()
	admin := testservice.Postgres(t)
	name := fmt.Sprintf("retryproof_test_%d_%s", os.Getpid(), suffix)
	run(t, admin, "CREATE DATABASE "+name)
	borrowed.mu.Lock()
	borrowed.all = append(borrowed.all, name) // TestMain drops it
	borrowed.mu.Unlock()
	return named(t, admin, name)
}

func migrate(t *testing.T, place string, d postgres.Direction) []postgres.Migration {
	t.Helper()
	out, err := postgres.Migrate(t.Context(), postgres.Config{URL: place}, d)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const schemaSQL = `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
	SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(collation_name, '') AS line
	FROM information_schema.columns WHERE table_schema = 'public'
	UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
	UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace) s`

func schemaOf(t *testing.T, place string) string {
	t.Helper()
	conn := connection(t, place)
	defer func() { _ = conn.Close(t.Context()) }()
	var all string
	if err := conn.QueryRow(t.Context(), schemaSQL).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestMigrationsGoUpDownAndUpToTheSameSchema(t *testing.T) {
	t.Parallel()
	place := scratch(t, "updown")
	migrate(t, place, postgres.Up)
	first := schemaOf(t, place)
	for downs := 0; ; downs++ {
		if state := migrate(t, place, postgres.Down); !state[0].Applied {
			break
		} else if downs > len(state) {
			t.Fatal("down does not end")
		}
	}
	if got := schemaOf(t, place); strings.Contains(got, "claims") {
		t.Errorf("after down: got %s, want no tables", got)
	}
	migrate(t, place, postgres.Up)
	if again := schemaOf(t, place); again != first {
		t.Errorf("got another schema after up, down, up:\n%s\nwant\n%s", again, first)
	}
}

func TestConcurrentStartsMigrateOnce(t *testing.T) {
	t.Parallel()
	place := scratch(t, "starts")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: place, Migrate: true, MaxConns: 2})
			if err != nil {
				t.Errorf("got error %v, want none", err)
				return
			}
			_ = s.Close()
		})
	}
	wg.Wait()
}

func TestOpenRefusesADatabaseOfAnotherVersion(t *testing.T) {
	t.Parallel()
	place := scratch(t, "versions")
	_, err := postgres.Open(t.Context(), postgres.Config{URL: place})
	if err == nil || !strings.Contains(err.Error(), "retryproof migrate --store") {
		t.Errorf("no migration: got error %v, want one that names the command", err)
	}
	migrate(t, place, postgres.Up)
	run(t, place, "INSERT INTO retryproof_migrations VALUES (9999, 'future', 0, false)")
	for _, config := range []postgres.Config{{URL: place}, {URL: place, Migrate: true}} {
		_, err := postgres.Open(t.Context(), config)
		if retryproof.CodeOf(err) != retryproof.CodePermanent || !strings.Contains(err.Error(), "9999") {
			t.Errorf("newer database: got error %v, want CodePermanent and the number", err)
		}
	}
}

// case 30: no position and no transaction id survives a dump, so none may be relied on.
func TestEventsAreSentAfterADumpAndRestore(t *testing.T) {
	t.Parallel()
	from, to := scratch(t, "dump"), scratch(t, "restore")
	before := open(t, postgres.Config{URL: from, Migrate: true})
	publish(t, before, "e1", "e2", "e3")
	if got := relay(t, before, 1); got != "e1" {
		t.Fatalf("got %q, want e1", got)
	}
	file := filepath.Join(t.TempDir(), "dump.sql")
	tool(t, "pg_dump", "--dbname", from, "--file", file)
	tool(t, "psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", to, "--file", file)
	after := open(t, postgres.Config{URL: to})
	publish(t, after, "e4", "e5")
	if got := relay(t, after, 10); got != "e2 e3 e4 e5" {
		t.Errorf("got %q, want every event that was not deleted", got)
	}
}

func publish(t *testing.T, s *postgres.Store, ids ...string) {
	t.Helper()
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if err := postgres.Within(tx).Publish(t.Context(), newEvent(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// relay claims and deletes, and returns the ids in order.
func relay(t *testing.T, s *postgres.Store, limit int) string {
	t.Helper()
	box := s.Payments().Outbox
	rows, err := box.Claim(t.Context(), outbox.Claim{Relay: "r", Now: noon, Until: noon.Add(time.Minute), Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	if deleted, err := box.Delete(t.Context(), "r", ids); err != nil || len(deleted) != len(ids) {
		t.Fatalf("got deleted %q and error %v, want %q", deleted, err, ids)
	}
	return strings.Join(ids, " ")
}

// tool runs one of PostgreSQL's programs.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if path, err := exec.LookPath(name); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing", name)
		}
		t.Skipf("%s is missing: apt-get install postgresql-client", name)
	}
	if out, err := exec.CommandContext(t.Context(), found[len(found)-1], args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// A newer program is being rolled out: the old one starts again on its schema, when the
// migration says that it may, and leaves alone what it does not know.
func TestAProgramRunsOnANewerCompatibleSchema(t *testing.T) {
	t.Parallel()
	place := scratch(t, "rolling")
	migrate(t, place, postgres.Up)
	run(t, place, "INSERT INTO retryproof_migrations VALUES (9999, 'future', 0, true)")
	for _, config := range []postgres.Config{{URL: place}, {URL: place, Migrate: true}} {
		open(t, config)
	}
	state := migrate(t, place, postgres.Status)
	if last := state[len(state)-1]; last.Version != 9999 || last.Name != "future" || !last.Applied {
		t.Errorf("got %+v last, want the newer migration", last)
	}
	_, err := postgres.Migrate(t.Context(), postgres.Config{URL: place}, postgres.Down)
	if retryproof.CodeOf(err) != retryproof.CodePermanent || !strings.Contains(err.Error(), "9999") {
		t.Errorf("down: got error %v, want CodePermanent and the number", err)
	}
}

// The table of applied migrations had a name that other programs use.
func TestADatabaseOfTheEarlierTableNameIsOpenedAndMigrated(t *testing.T) {
	t.Parallel()
	place := scratch(t, "earlier")
	migrate(t, place, postgres.Up)
	want := schemaOf(t, place)
	newest := len(migrate(t, place, postgres.Status))
	run(t, place, "ALTER TABLE retryproof_migrations RENAME TO schema_migrations")
	run(t, place, "ALTER TABLE schema_migrations DROP COLUMN compatible")
	for _, config := range []postgres.Config{{URL: place}, {URL: place, Migrate: true}} {
		open(t, config)
	}
	migrate(t, place, postgres.Down)
	if state := migrate(t, place, postgres.Up); len(state) != newest || !state[newest-1].Applied {
		t.Errorf("got %+v, want all applied", state)
	}
	if got := strings.ReplaceAll(schemaOf(t, place), "schema_migrations", "retryproof_migrations"); got != want {
		t.Errorf("got another schema:\n%s\nwant\n%s", got, want)
	}
}

func TestMigrationsOfOtherProgramsAreLeftAlone(t *testing.T) {
	t.Parallel()
	place := scratch(t, "others")
	run(t, place, "CREATE TABLE schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL)")
	run(t, place, "INSERT INTO schema_migrations VALUES (20260101, false)")
	s := open(t, postgres.Config{URL: place, Migrate: true})
	if n := count(t, s, "schema_migrations WHERE version = 20260101"); n != 1 {
		t.Errorf("got %d rows of the other program, want 1", n)
	}
}

func TestARoleThatMayCreateNothingRunsOnAMigratedDatabase(t *testing.T) {
	t.Parallel()
	place := scratch(t, "role")
	role, limited := roleOf(t, place, "role")
	_, err := postgres.Open(t.Context(), postgres.Config{URL: limited, Migrate: true})
	if err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("without tables: got error %v, want the server's words", err)
	}
	migrate(t, place, postgres.Up)
	run(t, place, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+role)
	s := open(t, postgres.Config{URL: limited, Migrate: true})
	publish(t, s, "e1")
	if got := relay(t, s, 10); got != "e1" {
		t.Errorf("got %q, want e1", got)
	}
}

func TestASchemaOfOnesOwn(t *testing.T) {
	t.Parallel()
	place := scratch(t, "schema")
	_, err := postgres.Open(t.Context(), postgres.Config{URL: place + "&search_path=app", Migrate: true})
	if err == nil || !strings.Contains(err.Error(), "no schema") || !strings.Contains(err.Error(), "CREATE SCHEMA") {
		t.Errorf("without the schema: got error %v, want the server's words and what to do", err)
	}
	run(t, place, "CREATE SCHEMA app")
	s := open(t, postgres.Config{URL: place + "&search_path=app", Migrate: true})
	publish(t, s, "e1")
	if n := count(t, s, "app.outbox"); n != 1 {
		t.Errorf("got %d events in the schema, want 1", n)
	}
	run(t, place, "CREATE TABLE payments (id bigint PRIMARY KEY)")
	_, err = postgres.Open(t.Context(), postgres.Config{URL: place, Migrate: true})
	if err == nil || !strings.Contains(err.Error(), `"payments" already exists`) {
		t.Errorf("a table of ours is there: got error %v, want the server's words", err)
	}
}

const oldPaymentSQL = `INSERT INTO payments (payment_id, client_key, caller_id, endpoint, fingerprint, state, owner, settled_by, tries, created_at, updated_at,
	order_id, merchant_id, amount, currency, payment_method, psp_charge, decline_code)
	VALUES ($1, $1, 'u1', 'payments', '1=x', 'SUCCEEDED', '', 'a', 0, 1, 1, 'o1', 'm1', 3000, 'USD', 'card', 'ch_1', '')`

// A program of the earlier schema wrote payments before, and goes on after, refunds came.
func TestPaymentsOfTheEarlierSchemaCanBeRefunded(t *testing.T) {
	t.Parallel()
	place := scratch(t, "verdicts")
	migrate(t, place, postgres.Up)
	for state := migrate(t, place, postgres.Status); state[2].Applied; {
		state = migrate(t, place, postgres.Down)
	}
	run(t, place, oldPaymentSQL, "pay_before")
	migrate(t, place, postgres.Up)
	run(t, place, oldPaymentSQL, "pay_after")
	s := open(t, postgres.Config{URL: place})
	found, err := s.Payments().Ledger.Payments(t.Context(), payments.Query{Limit: 10})
	if err != nil || len(found) != 2 || found[0].ID != "pay_after" || found[1].ID != "pay_before" {
		t.Fatalf("got %+v and error %v, want both", found, err)
	}
	for _, p := range found {
		if p.Refunded != 0 {
			t.Errorf("%s: got %d refunded, want 0", p.ID, p.Refunded)
		}
		if _, err := s.Payments().Refunds.Begin(t.Context(), refunding("R"+string(p.ID), p.ID, 3000)); err != nil {
			t.Errorf("%s: got error %v, want a refund", p.ID, err)
		}
		wantRefunded(t, s, p.ID, 3000)
	}
}
