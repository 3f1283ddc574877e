package memory_test

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/memory"
)

// An effect that is one transaction: its event, its outcome and its answer, together.
func ExampleTx_Finish() {
	store := memory.New()
	engine, err := effect.New(store.Effects(), effect.Config{Rerun: effect.RerunAlways})
	if err != nil {
		fmt.Println(err)
		return
	}
	letter := effect.Request{
		Scope:       retryproof.Scope{Endpoint: "letters", Caller: "u1", Key: "K1"},
		Fingerprint: retryproof.FingerprintOf(retryproof.Text("to", "bob")),
	}
	write := func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
		fmt.Println("written once")
		return effect.Finish{}, store.Within(func(tx *memory.Tx) error {
			if err := tx.Publish(ctx, retryproof.Event{ID: string(a.ID()), Group: "letters"}); err != nil {
				return err
			}
			return tx.Finish(ctx, a, effect.Finish{State: effect.Succeeded, Answer: effect.Answer{Body: []byte("letter 1")}})
		})
	}
	for range 2 {
		d, err := engine.Do(context.Background(), letter, write)
		fmt.Println(d.Verdict, d.State, err)
	}
	// Output:
	// written once
	// replay SUCCEEDED <nil>
	// replay SUCCEEDED <nil>
}
