package httpkey_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
)

// The whole hop: replies are lost after the effect, the client process is killed
// and comes back, and the charge happens once.
func TestTappedTwiceChargedOnce(t *testing.T) {
	t.Parallel()
	charges := map[string]int{}
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		charges[effect.FromContext(r.Context()).Key("charge")]++
		rw.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(rw, `{"state":"SUCCEEDED"}`)
	})
	lose := 3
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if lose > 0 {
			lose--
			w.next.ServeHTTP(httptest.NewRecorder(), r) // it runs, the reply never leaves
			panic(http.ErrAbortHandler)
		}
		w.next.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	dir := t.TempDir()
	tap := func() (*http.Response, error) { // each tap is a new process
		transport, err := httpkey.NewTransport(httpkey.ClientConfig{Journal: openJournal(t, dir), MaxTries: 2, Clock: w.clock})
		if err != nil {
			t.Fatal(err)
		}
		ctx := httpkey.WithIntent(context.Background(), "order-42-pay")
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/payments", strings.NewReader(pay))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer u1")
		r.Header.Set("Content-Type", "application/json")
		return (&http.Client{Transport: transport}).Do(r)
	}
	if resp, err := tap(); err == nil {
		_ = resp.Body.Close()
		t.Fatalf("got %d, want no answer at first", resp.StatusCode)
	}
	for range 2 {
		resp, err := tap()
		if err != nil {
			t.Fatal(err)
		}
		if got := bodyOf(t, resp); resp.StatusCode != http.StatusCreated || got != `{"state":"SUCCEEDED"}` || resp.Header.Get(httpkey.HeaderReplayed) != "true" {
			t.Errorf("got %d %q, want the recorded 201", resp.StatusCode, got)
		}
		_ = resp.Body.Close()
	}
	w.wantRuns(1)
	if len(charges) != 1 {
		t.Errorf("charges: got %v, want one", charges)
	}
}
