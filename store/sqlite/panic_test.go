package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/retryproof/retryproof"
)

// A fault in one operation ends its leader's call; the others hear that nothing was
// written, and the store goes on.
func TestAPanicInAGroupLeavesTheWriterUsable(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "shop.db"), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	note := func(ctx context.Context, q query) error {
		_, err := q.exec(ctx, "INSERT INTO inbox (event_id, source, consumer, noted_at) VALUES ('e1', '', 'c', 1)")
		return err
	}
	<-s.writer.lead // so that both wait and make one group
	others := make(chan error, 1)
	go func() { others <- s.write(t.Context(), note) }()
	for len(s.writer.todo) == 0 {
		select {
		case err := <-others:
			t.Fatalf("got %v before there was a leader", err)
		default:
		}
	}
	op := &operation{run: func(context.Context, query) error { panic("a fault") }, done: make(chan error, 1)}
	s.writer.todo <- op
	func() {
		defer func() {
			if recover() == nil {
				t.Error("got no panic, want the operation's")
			}
		}()
		s.writer.leadOnce(t.Context())
	}()
	if err := <-others; retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("the other's: got %v, want not done", err)
	}
	if err := s.write(t.Context(), note); err != nil {
		t.Errorf("afterwards: got %v", err)
	}
}
