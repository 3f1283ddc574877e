package payments

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
)

// readyEvery is how old an answer of GET /readyz may be. Whoever asks needs no token,
// so asking must not cost a write each time.
const readyEvery = time.Second

// readiness is the last answer.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// ready reports whether a payment could be recorded now.
func (s *System) ready(w http.ResponseWriter, r *http.Request) {
	now := s.deps.Clock.Now()
	last := &s.readiness
	last.mu.Lock()
	fresh, err := !last.at.IsZero() && now.Sub(last.at) < readyEvery && !now.Before(last.at), last.err
	last.mu.Unlock()
	if !fresh {
		// An asker that hangs up must not make the answer of all others.
		ctx, cancel := s.deps.Clock.WithTimeout(context.WithoutCancel(r.Context()), 2*time.Second)
		defer cancel()
		// A row is written, since a ledger that can only be read is not ready.
		probe := []Sighting{{PaymentID: "readyz", Hop: hopLedger, What: "probes", N: 1, At: now}}
		err = s.deps.Store.Hops.AddSightings(ctx, probe)
		last.mu.Lock()
		last.at, last.err = now, err
		last.mu.Unlock()
	}
	if err != nil {
		writeError(w, retryproof.Refused(retryproof.CodeUnavailable, "the ledger cannot be written", err))
		return
	}
	writeJSON(w, map[string]string{"status": "ready"})
}
