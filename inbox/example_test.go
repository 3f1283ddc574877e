package inbox_test

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/queue"
	queuememory "github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/store/memory"
)

func ExampleConsumer() {
	ctx := context.Background()
	messages, _ := queuememory.New(clock.System(), queuememory.Config{})
	handle := func(_ context.Context, d queue.Delivery) (inbox.Apply, error) {
		return inbox.Apply{Key: retryproof.InboxKey{Consumer: "mailer", Source: "shop", EventID: string(d.Body)}}, nil
	}
	consumer, _ := inbox.NewConsumer(messages, memory.New().Inbox(), handle, inbox.Config{
		Observe: func(what string, d queue.Delivery) { fmt.Println(what, string(d.Body)) },
	})
	for _, id := range []string{"first send", "second send"} { // one event, sent twice
		_ = messages.Send(ctx, queue.Message{ID: id, Group: "shop", Body: []byte("order_1:PLACED")})
		fmt.Println(consumer.RunOnce(ctx))
	}
	// Output:
	// applied order_1:PLACED
	// 1 <nil>
	// repeat order_1:PLACED
	// 1 <nil>
}
