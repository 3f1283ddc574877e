package payments_test

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// Whoever asks for readiness needs no token: asking again and again must not write
// again and again.
func TestReadinessIsProbedOnceASecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 20 {
		want(t, w.get("/readyz"), http.StatusOK, "")
	}
	w.clock.Advance(time.Second)
	want(t, w.get("/readyz"), http.StatusOK, "")
	probes, err := w.store.Payments().Hops.Sightings(t.Context(), "readyz")
	if err != nil || len(probes) != 1 || probes[0].N != 2 {
		t.Errorf("probes: got %+v, %v, want 2", probes, err)
	}
}

// An asker that hangs up makes no answer for others.
func TestAnAskerThatHangsUpDoesNotMakeItUnready(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w.send(ask{method: http.MethodGet, path: "/readyz", ctx: gone})
	want(t, w.get("/readyz"), http.StatusOK, "")
}
