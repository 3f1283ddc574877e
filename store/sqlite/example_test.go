package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/store/sqlite"
)

// printer is a queue that prints what it takes.
type printer struct{}

func (printer) Send(_ context.Context, m queue.Message) error {
	fmt.Println("sent", m.ID)
	return nil
}

// An order of yours and its event commit together; a relay sends the event.
func ExampleWithin() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, sqlite.Config{Path: ":memory:", Migrate: true}) // a file in a program
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	err = store.Transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE orders (id TEXT PRIMARY KEY)`); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES ('order_1')`); err != nil {
			return err
		}
		return sqlite.Within(tx).Publish(ctx, retryproof.Event{ID: "order_1:PLACED", Group: "shop", Body: []byte("{}")})
	})
	fmt.Println("committed", err)
	relay, err := outbox.NewRelay(store.Outbox(), printer{}, outbox.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(relay.RunOnce(ctx))
	// Output:
	// committed <nil>
	// sent order_1:PLACED
	// 1 <nil>
}
