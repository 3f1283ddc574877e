package httpkey_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
)

// case 9: the query is a part of the endpoint, so it has a limit like the key.
func TestAnEndpointThatNoStoreHoldsIsRefusedForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, ok("done"))
	for range 2 {
		r := ask{key: "K1"}.request()
		r.URL.RawQuery = "x=" + strings.Repeat("7", 6000)
		rec := httptest.NewRecorder()
		w.next.ServeHTTP(rec, r)
		wantAnswer(t, rec.Result(), 400, retryproof.CodeInvalid)
	}
	w.wantRuns(0)
	if got := w.seen.of(effect.SawFirst); got != 0 {
		t.Errorf("claims: got %d, want 0", got)
	}
}
