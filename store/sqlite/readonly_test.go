package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// case 28
func TestAReadOnlyDatabaseIsNotDoneAndLeavesNoClaim(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Path: t.TempDir() + "/test.db", Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	pragma := func(statement string) {
		_ = s.writer.alone(context.Background(), func() { _, err = s.writer.conn.ExecContext(context.Background(), statement) })
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	b := effect.Begin{Scope: retryproof.Scope{Endpoint: "e", Caller: "c", Key: "k"}, GuardID: "g", Owner: "a", Now: now, Until: now}
	pragma("PRAGMA query_only = 1")
	_, err = s.Effects().Begin(t.Context(), b)
	if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeReadOnly {
		t.Errorf("got %v (%v), want NotDone and CodeReadOnly", err, retryproof.OutcomeOf(err))
	}
	pragma("PRAGMA query_only = 0")
	b.Owner = "b"
	seen, err := s.Effects().Begin(t.Context(), b)
	if err != nil || seen.Claim.Owner != "b" || seen.Guard.Owner != "b" {
		t.Errorf("afterwards: got %+v and error %v, want a first request", seen, err)
	}
}
