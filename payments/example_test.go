package payments_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/payments"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
	pushemulator "github.com/retryproof/retryproof/push/emulator"
	queuememory "github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/store/memory"
)

func Example() {
	ctx := context.Background()
	core, _ := pspemulator.New(ctx, pspemulator.Config{})
	phones, _ := pushemulator.New(ctx, pushemulator.Config{})
	queue, _ := queuememory.New(clock.System(), queuememory.Config{})
	system, err := payments.New(payments.Deps{
		Store: memory.New().Payments(), Queue: queue, PSP: pspemulator.Direct{Core: core}, Push: phones,
		Authenticate: func(token string) (string, bool) { return "u1", token == "secret" },
	}, payments.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pay := ask{key: "one-key-per-tap", token: "secret"} // POST /payments, 30.00 USD for m1
	for range 2 {
		answer := httptest.NewRecorder()
		system.Handler().ServeHTTP(answer, pay.request())
		fmt.Println(answer.Code, "replayed:", answer.Header().Get("Idempotency-Replayed") == "true")
	}
	_, _ = system.RelayOnce(ctx, 0) // worker.Run does this forever
	_, _ = system.WorkOnce(ctx)
	fmt.Println(len(core.Charges()), "charge,", phones.Totals().Shown, "notification")
	// Output:
	// 201 replayed: false
	// 201 replayed: true
	// 1 charge, 1 notification
}
