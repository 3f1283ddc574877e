package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/postgres"
)

// case 18: a row of the program's, the outcome and the answer commit together, once. An
// owner that slept past its lease cannot commit its row.
func TestFinishCommitsOrRollsBackWithTheCallersRows(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *postgres.Store, begin func() transaction) {
		clock := clocktest.New(noon)
		e, err := effect.New(s.Effects(), effect.Config{Rerun: effect.RerunAlways, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		letter := effect.Request{Scope: retryproof.Scope{Endpoint: "letters", Caller: "u1", Key: "K1"},
			Fingerprint: retryproof.FingerprintOf(retryproof.Text("to", "bob"))}
		write := func(ctx context.Context, a *effect.Attempt, body string) error {
			tx := begin()
			f := effect.Finish{State: effect.Succeeded, Answer: effect.Answer{Body: []byte(body)}}
			if err := errors.Join(tx.exec("INSERT INTO audit VALUES ('"+body+"')"), tx.within().Finish(ctx, a, f)); err != nil {
				return errors.Join(err, tx.end(false))
			}
			return tx.end(true)
		}
		runs := 0
		var run func(context.Context, *effect.Attempt) (effect.Finish, error)
		run = func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
			ctx, body := context.WithoutCancel(ctx), "in time"
			if runs++; runs == 1 {
				clock.Advance(7 * time.Second)
				if d, err := e.Do(t.Context(), letter, run); err != nil || d.Verdict != effect.Replay {
					t.Errorf("the successor: got %v, error %v, want its answer", d.Verdict, err)
				}
				body = "late"
			}
			return effect.Finish{}, write(ctx, a, body)
		}
		for range 2 {
			d, err := e.Do(t.Context(), letter, run)
			if err != nil || d.Verdict != effect.Replay || d.Answer == nil || string(d.Answer.Body) != "in time" {
				t.Fatalf("got %v, error %v, want the answer that committed", d.Verdict, err)
			}
		}
		if rows := count(t, s, "audit WHERE what = 'in time'"); rows != 1 || count(t, s, "audit") != 1 || runs != 2 {
			t.Errorf("got %d rows in time, %d in all and %d runs, want 1, 1 and 2", rows, count(t, s, "audit"), runs)
		}
	})
}
