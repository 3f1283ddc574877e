package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

// wakeUp is how long serve waits for the outside companies to read their files before
// it says that it is ready. A file that grew for long takes longer; then they go on
// reading, and who asks them meanwhile is told to come again.
const wakeUp = time.Second

// company is an outside company that reads its file.
type company[T any] struct {
	ready chan struct{} // closed when value or err is there
	value T
	err   error
}

// wake starts a company. stop ends its reading and waits for the end.
func wake[T any](ctx context.Context, open func(context.Context) (T, error)) (c *company[T], stop func() error) {
	c = &company[T]{ready: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(c.ready)
		c.value, c.err = open(ctx)
	}()
	return c, func() error {
		cancel()
		<-c.ready
		return nil
	}
}

// awake returns the company, once it has read its file.
func (c *company[T]) awake() (T, bool) {
	select {
	case <-c.ready:
		return c.value, c.err == nil
	default:
		var none T
		return none, false
	}
}

// wait waits until the company is awake or has failed, or the time is over. Its error
// is the company's.
func (c *company[T]) wait(over <-chan time.Time) error {
	select {
	case <-c.ready:
		return c.err
	case <-over:
		return nil
	}
}

// handler serves what the company serves, and asleep until it is awake.
func (c *company[T]) handler(of func(T) http.Handler, asleep http.HandlerFunc) http.Handler {
	made := sync.OnceValue(func() http.Handler { return of(c.value) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := c.awake(); !ok {
			asleep(w, r)
			return
		}
		made().ServeHTTP(w, r)
	})
}

// stillReading tells callers that speak our problems to come again.
func stillReading(w http.ResponseWriter, _ *http.Request) {
	httpkey.ProblemOf(&retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeUnavailable, RetryAfter: time.Second,
		Message: "the outside company is still reading its file"}).Write(w)
}

// stillReadingStripe tells them in Stripe's words, which mean that nothing was done.
func stillReadingStripe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write([]byte(`{"error":{"type":"invalid_request_error","code":"rate_limit","message":"The processor is still reading its file."}}`))
}
