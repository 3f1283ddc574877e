package httpkey_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/retryproof/retryproof/httpkey"
)

// lossy stands in for a network that loses a payment on its way, and for a server that
// was never told of it.
func lossy(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/payments" {
		return nil, errors.New("time-out")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"state":"VOID"}`)), Request: r}, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func ExampleTransport_Resolve() {
	transport, err := httpkey.NewTransport(httpkey.ClientConfig{Base: roundTripper(lossy), MaxTries: 1})
	if err != nil {
		panic(err)
	}
	ctx := httpkey.WithIntent(context.Background(), "order-42-pay")
	order, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.example/payments", strings.NewReader(`{"amount":3000}`))
	if _, err := transport.RoundTrip(order); err != nil {
		fmt.Println("paid or not?")
	}

	question, _ := http.NewRequest(http.MethodPost, "https://shop.example/payments/resolve", nil)
	question.Header.Set("Authorization", "Bearer demo-u1")
	became, err := transport.Resolve(context.Background(), "order-42-pay", question)
	if err != nil {
		panic(err)
	}
	fmt.Println(became.State, became.Fate == httpkey.FateDeclined)
	// Output:
	// paid or not?
	// VOID true
}
