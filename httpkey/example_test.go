package httpkey_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// A server: the handler runs once per key, a repeat gets the recorded answer.
func ExampleMiddleware() {
	engine, _ := effect.New(memory.New().Effects(), effect.Config{})
	keys, _ := httpkey.New(engine, httpkey.Config{Caller: func(*http.Request) (string, error) { return "u1", nil }})
	mux := http.NewServeMux()
	mux.Handle("POST /payments", keys.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("charging once")
		w.WriteHeader(http.StatusCreated)
	})))
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("3000"))
		r.Header.Set("Idempotency-Key", "K1")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Printf("%d replayed=%q\n", w.Code, w.Header().Get("Idempotency-Replayed"))
	}
	// Output:
	// charging once
	// 201 replayed=""
	// 201 replayed="true"
}

// A client: the first send is lost, the second carries the same key.
func ExampleTransport() {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen = append(seen, r.Header.Get("Idempotency-Key")); len(seen) == 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "paid")
	}))
	defer server.Close()
	transport, _ := httpkey.NewTransport(httpkey.ClientConfig{}) // a FileJournal survives the process
	client := http.Client{Transport: transport}
	ctx := httpkey.WithIntent(context.Background(), "order-42-pay")
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("3000"))
	resp, _ := client.Do(r)
	defer func() { _ = resp.Body.Close() }()
	pending, _ := transport.Pending(ctx)
	fmt.Println(resp.StatusCode, len(seen), seen[0] == seen[1], len(pending))
	// Output: 200 2 true 0
}
