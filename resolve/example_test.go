package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/store/memory"
	"github.com/retryproof/retryproof/worker"
)

// shopkeeper charges cards at a bank that honours keys. orders are rows of its own: what
// each charge is about, written before the bank is called.
type shopkeeper struct {
	orders  map[retryproof.ID]int64
	charges map[string]int64 // at the bank, by key
	silent  bool             // the bank's next answer is lost
}

func (s *shopkeeper) save(id retryproof.ID, amount int64) { s.orders[id] = amount }

func (s *shopkeeper) charge(id retryproof.ID, key string) error {
	amount, known := s.orders[id]
	if !known {
		return errors.New("no order: what to ask for is not known")
	}
	s.charges[key] = amount // the same key again changes nothing
	if s.silent {
		s.silent = false
		return errors.New("timeout")
	}
	return nil
}

// Repeat implements resolve.Remote: the same call, with the same key.
func (s *shopkeeper) Repeat(_ context.Context, g effect.Guard) (resolve.Finding, error) {
	key := g.ID.Sub("charge")
	return resolve.Finding{Ref: key, State: effect.Succeeded}, s.charge(g.ID, key)
}

// LookUp implements resolve.Remote: what the bank holds, without asking for anything.
func (s *shopkeeper) LookUp(_ context.Context, g effect.Guard) ([]resolve.Finding, error) {
	key := g.ID.Sub("charge")
	if _, there := s.charges[key]; !there {
		return nil, nil
	}
	return []resolve.Finding{{Ref: key, State: effect.Succeeded}}, nil
}

func caller(*http.Request) (string, error) { return "u1", nil }

func payment(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/payments", nil)
	r.Header.Set("Idempotency-Key", key)
	return r
}

// killedBefore leaves what a process leaves that was killed in its handler, an hour ago.
func killedBefore(store effect.Store, r *http.Request) {
	engine, _ := effect.New(store, effect.Config{Clock: clocktest.New(clock.System().Now().Add(-time.Hour))})
	meaning, _ := httpkey.ReadBody()(r, nil)
	_, _, _ = engine.Begin(r.Context(), effect.Request{Fingerprint: meaning.Fingerprint,
		Scope: retryproof.Scope{Endpoint: httpkey.DefaultEndpoint(r), Caller: "u1", Key: retryproof.Key(r.Header.Get("Idempotency-Key"))}})
}

// A service of your own. K1 was left PENDING by a process that was killed: its repeat
// runs the handler again. K2's call has no answer: the resolver asks.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := memory.New()
	shop := &shopkeeper{orders: map[retryproof.ID]int64{}, charges: map[string]int64{}}
	killedBefore(store.Effects(), payment("K1"))

	engine, _ := effect.New(store.Effects(), effect.Config{Rerun: effect.RerunPending})
	keys, _ := httpkey.New(engine, httpkey.Config{Caller: caller})
	handler := keys.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := effect.FromContext(r.Context())
		shop.save(a.ID(), 3000) // a row of your own: what the call will say
		if err := shop.charge(a.ID(), a.Key("charge")); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable) // nobody knows: UNKNOWN
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	ask, _ := resolve.AskRemote(shop, resolve.AskConfig{}) // its methods Repeat and LookUp
	created := func(effect.Guard) effect.Answer { return effect.Answer{Status: http.StatusCreated} }
	resolver, _ := resolve.New(engine, store.Due(), ask, created, resolve.Config{UnknownOnly: true})
	loop := worker.Loop{Name: "resolver", Step: resolver.RunOnce} // go worker.Run(ctx, worker.Config{}, loop)

	send := func(key string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, payment(key))
		fmt.Printf("%s: %d replayed=%q charges=%d\n", key, w.Code, w.Header().Get("Idempotency-Replayed"), len(shop.charges))
	}
	send("K1")
	shop.silent = true
	send("K2")
	send("K2")
	step := loop.Step
	loop.Step = func(ctx context.Context) (int, error) {
		defer stop() // one step is enough here
		return step(ctx)
	}
	worker.Run(ctx, worker.Config{}, loop)
	send("K2")
	// Output:
	// K1: 201 replayed="" charges=1
	// K2: 503 replayed="" charges=2
	// K2: 202 replayed="" charges=2
	// K2: 201 replayed="true" charges=2
}
