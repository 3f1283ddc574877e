package deadline_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/deadline"
)

func Example() {
	now := clocktest.New(time.Unix(1772359210, 0))
	arrivals, _ := deadline.New(deadline.Config{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Headers:        []deadline.Header{{Name: deadline.HeaderRequestStart}},
		Clock:          now,
		Observe:        func(o deadline.Observation) { fmt.Println(o.What, o.Age) },
	})
	gate, _ := deadline.NewGate(deadline.GateConfig{MaxWait: 2 * time.Second, Arrived: arrivals.Arrived, Clock: now})
	handler := arrivals.Handler(gate.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("ran", arrivals.Arrived(r).Unix()) // also the Arrived of an httpkey.Config
	})))
	for _, stamp := range []string{"t=1772359209.250", "t=1772359205.000"} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = "10.0.0.1:1234"
		r.Header.Set(deadline.HeaderRequestStart, stamp) // nginx: proxy_set_header X-Request-Start "t=${msec}";
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// used 750ms
	// ran 1772359209
	// 200
	// used 5s
	// 503
}

func ExampleAllow() {
	now := clocktest.New(time.Unix(0, 0))
	ctx := deadline.WithBudget(context.Background(), now.Now().Add(5*time.Second))
	for range 2 {
		if err := deadline.Allow(ctx, now, 2*time.Second); err != nil {
			fmt.Println(retryproof.OutcomeOf(err), retryproof.CodeOf(err))
		} else {
			fmt.Println("go on")
		}
		now.Advance(4 * time.Second)
	}
	// Output:
	// go on
	// not done too-late
}

func ExampleFormula2() {
	fmt.Println(deadline.Formula2(5*time.Second, 20*time.Millisecond, 0, 10*time.Second))
	fmt.Println(deadline.Formula2(5*time.Second, 11980*time.Millisecond, 0, 10*time.Second))
	// Output:
	// <nil>
	// deadline: formula 2, server deadline + longest wait before the arrival stamp + clock offset < client timeout fails: 5s + 11.98s + 0s = 16.98s ≥ 10s: a request can still begin after its client has given up and started again with a new key
}
