package effect_test

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/memory"
)

func Example_once() {
	engine, _ := effect.New(memory.New().Effects(), effect.Config{})
	bill := effect.Request{
		Scope:       retryproof.Scope{Endpoint: "bills", Caller: "tenant-1", Key: "2026-W09"},
		Fingerprint: retryproof.FingerprintOf(retryproof.Int("amount", 3000), retryproof.Text("currency", "EUR")),
	}
	send := func(_ context.Context, a *effect.Attempt) (effect.Finish, error) {
		fmt.Println("sent once") // an outside call would carry a.Key("send")
		return effect.Finish{State: effect.Succeeded, Answer: effect.Answer{Body: []byte("bill 17")}}, nil
	}
	for range 3 {
		d, err := engine.Do(context.Background(), bill, send)
		if err == nil {
			err = d.Err() // still running, not known yet, or a key that another bill has used
		}
		switch {
		case err != nil:
			fmt.Println("keep the key, unless it says NotDone:", err)
		case d.Answer == nil:
			fmt.Println(d.State) // the answer has expired; d.Guard.Result is kept
		default:
			fmt.Println(d.State, string(d.Answer.Body))
		}
	}
	// Output:
	// sent once
	// SUCCEEDED bill 17
	// SUCCEEDED bill 17
	// SUCCEEDED bill 17
}
