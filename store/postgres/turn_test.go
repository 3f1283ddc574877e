package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/postgres"
)

// A relay that waited for its turn sees what the one before it has leased, whatever the
// level of the store's other transactions: it neither fails nor takes a row of theirs.
func TestARelaySeesWhatTheOneBeforeItLeased(t *testing.T) {
	t.Parallel()
	for name, level := range map[string]pgx.TxIsoLevel{"repeatable read": pgx.RepeatableRead, "serializable": pgx.Serializable} { // order: parallel
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := database(t)
			s := open(t, postgres.Config{URL: place, Isolation: level, Retries: -1}) // a conflict would show
			for _, e := range []retryproof.Event{{ID: "e1", Group: "m1", At: noon}, {ID: "e2", Group: "m2", At: noon}} {
				tx, err := s.Pool().Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := postgres.Within(tx).Publish(t.Context(), e); err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			conn := connection(t, place)
			defer func() { _ = conn.Close(context.Background()) }()
			before, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := before.Exec(t.Context(), "SELECT id FROM outbox_turn ORDER BY id FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			type claimed struct {
				rows []outbox.Row
				err  error
			}
			result := make(chan claimed, 1)
			go func() {
				rows, err := s.Outbox().Claim(t.Context(), outbox.Claim{Relay: "r2", Now: noon, Until: noon.Add(time.Second), Limit: 9})
				result <- claimed{rows, err}
			}()
			waitForLock(t, s, "outbox_turn")
			if _, err := before.Exec(t.Context(), "UPDATE outbox SET leased_by = 'r1', leased_until = $1 WHERE event_id = 'e1'", noon.Add(time.Second).UnixMicro()); err != nil {
				t.Fatal(err)
			}
			if err := before.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := <-result
			if got.err != nil || len(got.rows) != 1 || got.rows[0].ID != "e2" {
				t.Errorf("got %+v and error %v, want e2 alone", got.rows, got.err)
			}
		})
	}
}
