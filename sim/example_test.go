package sim_test

import (
	"fmt"
	"net/http"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/sim"
)

// A handler of your own in two hundred faulty worlds: it crashes, its answers are
// lost, its requests come twice. The bank outside must never move money twice.
func ExampleExploreHandler() {
	violation, err := sim.ExploreHandler(1, 200, func() sim.Subject {
		bank := map[string]int{} // key → how often money moved
		return sim.Subject{
			Handler: func(env sim.Env) (http.Handler, error) { return transfers(env, bank) },
			Request: func(n int) sim.Message {
				return sim.Message{Path: "/transfers", Body: fmt.Appendf(nil, `{"amount":%d}`, n)}
			},
			Check: func(done []int) error {
				if len(bank) < len(done) {
					return fmt.Errorf("%d transfers for %d answers", len(bank), len(done))
				}
				return nil
			},
		}
	})
	fmt.Println(violation, err)
	// Output: <nil> <nil>
}

// transfers is the handler: the bank is asked under the effect's own key, so that
// asking again gives what it gave before.
func transfers(env sim.Env, bank map[string]int) (http.Handler, error) {
	engine, err := effect.New(env.Store, effect.Config{Clock: env.Clock, Rand: env.Rand, Rerun: effect.RerunAlways})
	if err != nil {
		return nil, err
	}
	keyed, err := httpkey.New(engine, httpkey.Config{Caller: func(*http.Request) (string, error) { return "u1", nil }})
	if err != nil {
		return nil, err
	}
	return keyed.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := effect.FromContext(r.Context()).Key("transfer")
		if env.Outside(r.Context(), "transfer", func() error { bank[key] = 1; return nil }) != nil {
			httpkey.Unknown(r.Context())
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})), nil
}
