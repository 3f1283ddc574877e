package sqlite_test

import (
	"testing"

	"github.com/retryproof/retryproof/store/sqlite"
)

func open(t testing.TB, config sqlite.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
