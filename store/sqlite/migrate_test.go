package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/store/sqlite"
)

func TestMigrationsGoUpDownAndUpToTheSameSchema(t *testing.T) {
	t.Parallel()
	config := sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db")}
	up := func() string {
		migrate(t, config, sqlite.Up)
		return schemaOf(t, config)
	}
	first := up()
	for downs := 0; ; downs++ {
		state := migrate(t, config, sqlite.Down)
		if !state[0].Applied {
			break
		}
		if downs > len(state) {
			t.Fatal("down does not end")
		}
	}
	if got := schemaOf(t, config); strings.Contains(got, "claims") {
		t.Errorf("after down: got %s, want no tables", got)
	}
	if again := up(); again != first {
		t.Errorf("got another schema after up, down, up:\n%s\nwant\n%s", again, first)
	}
}

func TestConcurrentStartsMigrateOnce(t *testing.T) {
	t.Parallel()
	config := sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db"), Migrate: true}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := sqlite.Open(t.Context(), config)
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
	config := sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db")}
	if _, err := sqlite.Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), "retryproof migrate --store") {
		t.Errorf("no migration: got error %v, want one that names the command", err)
	}
	migrate(t, config, sqlite.Up)
	db, err := sql.Open("sqlite", config.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	exec(t, db, "INSERT INTO schema_migrations VALUES (9999, 'future', 0)")
	for _, config := range []sqlite.Config{config, {Path: config.Path, Migrate: true}} {
		_, err := sqlite.Open(t.Context(), config)
		if retryproof.CodeOf(err) != retryproof.CodePermanent || !strings.Contains(err.Error(), "9999") {
			t.Errorf("newer database: got error %v, want CodePermanent and the number", err)
		}
	}
}

func migrate(t *testing.T, config sqlite.Config, d sqlite.Direction) []sqlite.Migration {
	t.Helper()
	out, err := sqlite.Migrate(t.Context(), config, d)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func schemaOf(t *testing.T, config sqlite.Config) string {
	t.Helper()
	db, err := sql.Open("sqlite", config.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var all sql.NullString
	err = db.QueryRow("SELECT group_concat(sql, char(10)) FROM (SELECT sql FROM sqlite_schema WHERE name <> 'sqlite_sequence' ORDER BY type, name)").Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all.String
}
