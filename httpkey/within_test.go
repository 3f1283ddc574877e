package httpkey_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// A handler may end the effect in a transaction of its own. What is answered, to the
// first request and to repeats, is what that transaction recorded, if it committed.
func TestTheHandlersTransactionSaysWhatIsAnswered(t *testing.T) {
	t.Parallel()
	broken := errors.New("rolled back")
	for name, c := range map[string]struct {
		recorded      int // the status of the answer that the transaction records
		end           error
		status        int
		first, repeat int
		runs          int64
	}{
		"committed":                        {201, nil, 200, 201, 201, 1},
		"committed, then a 500":            {201, nil, 500, 201, 201, 1},
		"committed, then a 400":            {201, nil, 400, 201, 201, 1},
		"committed, the answer is our own": {0, nil, 201, 201, 200, 1},
		"rolled back, then a 200":          {201, broken, 200, 202, 202, 1},
		"rolled back, then a 500":          {201, broken, 500, 500, 202, 1},
		"rolled back, then a 400":          {201, broken, 400, 400, 400, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			w := newWorldOn(t, store.Effects(), effect.Config{}, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
				err := store.Within(func(tx *memory.Tx) error {
					f := effect.Finish{State: effect.Succeeded, Answer: effect.Answer{Status: c.recorded}}
					row := retryproof.Event{ID: "row", Group: "rows", At: start}
					return errors.Join(tx.Publish(r.Context(), row), tx.Finish(r.Context(), effect.FromContext(r.Context()), f), c.end)
				})
				if !errors.Is(err, c.end) {
					t.Errorf("got %v, want %v", err, c.end)
				}
				rw.WriteHeader(c.status)
			})
			wantAnswer(t, w.send(ask{key: "K1"}), c.first, "")
			wantAnswer(t, w.send(ask{key: "K1"}), c.repeat, "")
			w.wantRuns(c.runs)
			if w.seen.of(effect.SawFenced) != 0 {
				t.Errorf("got %v, want nobody fenced", w.seen.n)
			}
		})
	}
}
