package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retryproof/retryproof/internal/testservice"
	"github.com/retryproof/retryproof/store/postgres"
)

// places are databases that tests borrow one at a time: creating one per case would
// take most of the suite's time.
type places struct {
	mu   sync.Mutex
	free []string
	all  []string
}

var borrowed places

// onePooled holds the right to the only database that the pooler serves, for poolers
// that know no other. It carries whether that database was migrated.
var onePooled = make(chan bool, 1)

func init() { onePooled <- false }

// pooled returns the URL of an empty, migrated database behind the transaction pooler.
func pooled(t testing.TB) string {
	t.Helper()
	pooler, admin := testservice.PgBouncer(t), testservice.Postgres(t)
	if knowsEveryDatabase(pooler) {
		direct, err := url.Parse(database(t))
		if err != nil {
			t.Fatal(err)
		}
		return named(t, pooler, strings.TrimPrefix(direct.Path, "/"))
	}
	var migrated bool
	select {
	case migrated = <-onePooled:
	case <-t.Context().Done():
		t.Fatal("the test ended while it waited for the pooler's database")
	}
	t.Cleanup(func() { onePooled <- migrated })
	if !migrated {
		run(t, admin, "DROP SCHEMA public CASCADE")
		run(t, admin, "CREATE SCHEMA public")
		if _, err := postgres.Migrate(t.Context(), postgres.Config{URL: pooler}, postgres.Up); err != nil {
			t.Fatal(err)
		}
		migrated = true
	}
	run(t, admin, emptySQL)
	return pooler
}

// knowsEveryDatabase asks for one that every server has.
func knowsEveryDatabase(pooler string) bool {
	u, err := url.Parse(pooler)
	if err != nil {
		return false
	}
	u.Path = "/template1"
	conn, err := pgx.Connect(context.Background(), u.String())
	if err != nil {
		return false
	}
	_ = conn.Close(context.Background())
	return true
}

// emptySQL deletes rather than truncates: that costs a sync for each of the files.
const emptySQL = `DELETE FROM claims; DELETE FROM guards; DELETE FROM payments; DELETE FROM postings; DELETE FROM accounts;
	DELETE FROM outbox; DELETE FROM inbox; DELETE FROM notifications; DELETE FROM sightings;
	DELETE FROM versions; DELETE FROM locators; DELETE FROM sagas; DELETE FROM saga_marks;
	DELETE FROM refunds; DELETE FROM evidence; DELETE FROM inbox_parked`

// database returns the URL of an empty, migrated database that is the test's own until
// it ends.
func database(t testing.TB) string {
	t.Helper()
	admin := testservice.Postgres(t)
	place := borrowed.take(t, admin)
	t.Cleanup(func() { borrowed.giveBack(place) })
	return place
}

func (p *places) take(t testing.TB, admin string) string {
	t.Helper()
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		place := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		run(t, place, emptySQL)
		return place
	}
	name := fmt.Sprintf("retryproof_test_%d_%d", os.Getpid(), len(p.all))
	p.all = append(p.all, name)
	p.mu.Unlock()
	run(t, admin, "CREATE DATABASE "+name)
	place := named(t, admin, name)
	if _, err := postgres.Migrate(t.Context(), postgres.Config{URL: place}, postgres.Up); err != nil {
		t.Fatal(err)
	}
	return place
}

func (p *places) giveBack(place string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, place)
}

// TestMain drops the databases.
func TestMain(m *testing.M) {
	if place := os.Getenv(relayEnv); place != "" {
		os.Exit(runRelay(place))
	}
	code := m.Run()
	if admin := os.Getenv(testservice.EnvPostgres); admin != "" {
		for _, name := range borrowed.all {
			if conn, err := pgx.Connect(context.Background(), admin); err == nil {
				_, _ = conn.Exec(context.Background(), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
				_ = conn.Close(context.Background())
			}
		}
	}
	os.Exit(code)
}

// named is the same server's other database.
func named(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// run executes one statement on a connection of its own.
func run(t testing.TB, place, statement string, args ...any) {
	t.Helper()
	conn := connection(t, place)
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", strings.SplitN(statement, "\n", 2)[0], err)
	}
}

func connection(t testing.TB, place string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func open(t testing.TB, config postgres.Config) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
