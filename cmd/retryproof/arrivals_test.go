package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// stamped pays with a stamp of that age.
func (s *served) stamped(key string, age time.Duration) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/payments",
		strings.NewReader(`{"order_id":"42","amount":3000,"currency":"USD","payment_method":"pm_1","merchant_id":"m1"}`))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer demo-u1")
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Request-Start", fmt.Sprintf("t=%d", time.Now().Add(-age).UnixMilli()))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// What a trusted proxy stamped too long ago is refused before it runs; a stamp of
// anybody else is ignored, and counted.
func TestStampsCountFromTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	trusting := serve(t, t.TempDir(), "--trusted-proxies", "127.0.0.0/8", "--stamp-header", "X-Request-Start", "--max-wait", "3s")
	if got := trusting.stamped("late", time.Minute); got != http.StatusServiceUnavailable {
		t.Errorf("late: got %d, want 503", got)
	}
	if got := trusting.stamped("waited", 4*time.Second); got != http.StatusServiceUnavailable { // deadline 5 s, shed after 3
		t.Errorf("waited: got %d, want 503", got)
	}
	if got := trusting.stamped("fresh", 0); got != http.StatusCreated {
		t.Errorf("fresh: got %d, want 201", got)
	}
	trusting.wantCharges(1)
	trusting.eventually("/metrics", `retryproof_arrivals_total{what="shed"} 2`)
	trusting.stop()

	others := serve(t, t.TempDir(), "--trusted-proxies", "10.0.0.0/8", "--stamp-header", "X-Request-Start")
	if got := others.stamped("late", time.Minute); got != http.StatusCreated {
		t.Errorf("an untrusted stamp: got %d, want 201", got)
	}
	others.eventually("/metrics", `retryproof_arrivals_total{what="untrusted"} 1`)
	others.stop()
}
