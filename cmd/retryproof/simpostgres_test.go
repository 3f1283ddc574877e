package main

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A world that finds what an earlier one left behind is judged wrongly: a table that a
// migration adds must be emptied too.
func TestEveryTableIsEmptiedBetweenTwoWorlds(t *testing.T) {
	t.Parallel()
	url := freshDatabase(t)
	s, err := openSimPostgres(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close() //nolint:errcheck // a test database
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context()) //nolint:errcheck // a test database
	rows, err := db.Query(t.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()
		AND tablename NOT IN ('retryproof_migrations', 'outbox_turn') ORDER BY tablename`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := slices.Sorted(slices.Values(simTables)); err != nil || !slices.Equal(got, want) {
		t.Errorf("tables: got %v, %v, want %v", got, err, want)
	}
}
