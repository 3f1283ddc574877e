package sim_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/sim"
)

// naive is a subject that moves money by order, and counts it.
func naive(handler func(env sim.Env, moved map[string]int) (http.Handler, error)) func() sim.Subject {
	return func() sim.Subject {
		moved := map[string]int{}
		return sim.Subject{
			Handler: func(env sim.Env) (http.Handler, error) { return handler(env, moved) },
			Request: func(n int) sim.Message { return sim.Message{Path: "/pay", Body: fmt.Appendf(nil, "%d", n)} },
			Check: func([]int) error {
				for order, times := range moved {
					if times > 1 {
						return fmt.Errorf("order %s was paid %d times", order, times)
					}
				}
				return nil
			},
		}
	}
}

// pay moves money without a key for the bank.
func pay(env sim.Env, moved map[string]int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order, _ := io.ReadAll(r.Body)
		if env.Outside(r.Context(), "pay", func() error { moved[string(order)]++; return nil }) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

func TestAHandlerWithoutKeysIsFound(t *testing.T) {
	t.Parallel()
	v, err := sim.ExploreHandler(1, 100, naive(func(env sim.Env, moved map[string]int) (http.Handler, error) { return pay(env, moved), nil }))
	if err != nil || v == nil || v.Rule != "invariant" {
		t.Fatalf("got %v, %v, want a violated invariant", v, err)
	}
}

func TestAKeyedHandlerWhoseOutsideCallHasNoKeyMustNotBeRunAgain(t *testing.T) {
	t.Parallel()
	with := func(rerun effect.Rerun) func(env sim.Env, moved map[string]int) (http.Handler, error) {
		return func(env sim.Env, moved map[string]int) (http.Handler, error) {
			engine, err := effect.New(env.Store, effect.Config{Clock: env.Clock, Rand: env.Rand, Rerun: rerun})
			if err != nil {
				return nil, err
			}
			keyed, err := httpkey.New(engine, httpkey.Config{Caller: func(*http.Request) (string, error) { return "u1", nil }})
			if err != nil {
				return nil, err
			}
			return keyed.Handler(pay(env, moved)), nil
		}
	}
	v, err := sim.ExploreHandler(1, 200, naive(with(effect.RerunAlways)))
	if err != nil || v == nil || v.Rule != "invariant" {
		t.Errorf("run again: got %v, %v, want a violated invariant", v, err)
	}
	// Never run again, an unknown outcome stays unknown: nothing is paid twice, and
	// somebody has to settle it.
	v, err = sim.ExploreHandler(1, 200, naive(with(effect.RerunNever)))
	if err != nil || v != nil && v.Rule != sim.HarmStuck {
		t.Errorf("never run again: got %v, %v, want nothing paid twice", v, err)
	}
}
