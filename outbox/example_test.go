package outbox_test

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/store/memory"
)

// printer is a queue that prints what it takes.
type printer struct{}

func (printer) Send(_ context.Context, m queue.Message) error {
	fmt.Println("sent", m.ID, string(m.Body))
	return nil
}

func ExampleRelay() {
	ctx := context.Background()
	store := memory.New()
	_ = store.Within(func(tx *memory.Tx) error { // with the effect's own writes
		return tx.Publish(ctx, retryproof.Event{ID: "order_1:PLACED", Group: "shop", Body: []byte(`{"order":1}`)})
	})
	relay, err := outbox.NewRelay(store.Outbox(), printer{}, outbox.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		fmt.Println(relay.RunOnce(ctx))
	}
	// Output:
	// sent order_1:PLACED {"order":1}
	// 1 <nil>
	// 0 <nil>
}
