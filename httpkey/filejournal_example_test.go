package httpkey_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/retryproof/retryproof/httpkey"
)

// A client whose key is in a file before it is sent, so that its next life sends
// the same one.
func ExampleFileJournal() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("a key of", len(r.Header.Get("Idempotency-Key")), "characters")
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	dir, _ := os.MkdirTemp("", "keys-")
	defer func() { _ = os.RemoveAll(dir) }()

	journal, _ := httpkey.OpenFileJournal(dir)
	transport, _ := httpkey.NewTransport(httpkey.ClientConfig{Journal: journal})
	client := http.Client{Transport: transport}
	ctx := httpkey.WithIntent(context.Background(), "order-42-pay") // one name, one key, after a restart too
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(`{"amount":3000}`))
	resp, err := client.Do(r)
	if err != nil {
		fmt.Println("nobody knows; send the same intent again:", err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	unfinished, _ := transport.Pending(ctx) // what a start finds and sends again
	fmt.Println(resp.StatusCode, len(unfinished), "unfinished")
	// Output:
	// a key of 32 characters
	// 201 0 unfinished
}
