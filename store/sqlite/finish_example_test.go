package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/sqlite"
)

// A row of yours, the effect's outcome and its answer commit together, or none of them:
// a run that was overtaken cannot commit its row.
func ExampleTx_Finish() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, sqlite.Config{Path: ":memory:", Migrate: true}) // a file in a program
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	err = store.Transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE letters (id TEXT PRIMARY KEY, receiver TEXT NOT NULL)`)
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, _ := effect.New(store.Effects(), effect.Config{Rerun: effect.RerunAlways}) // the run is one transaction
	letter := effect.Request{
		Scope:       retryproof.Scope{Endpoint: "letters", Caller: "u1", Key: "K1"},
		Fingerprint: retryproof.FingerprintOf(retryproof.Text("to", "bob")),
	}
	write := func(ctx context.Context, a *effect.Attempt) (effect.Finish, error) {
		return effect.Finish{}, store.Transact(ctx, func(tx *sql.Tx) error { // or db.BeginTx and tx.Commit on a file
			if _, err := tx.ExecContext(ctx, `INSERT INTO letters VALUES (?, 'bob')`, a.ID()); err != nil {
				return err
			}
			answer := effect.Answer{Body: []byte("letter " + a.ID())}
			return sqlite.Within(tx).Finish(ctx, a, effect.Finish{State: effect.Succeeded, Answer: answer})
		})
	}
	for range 2 {
		d, err := engine.Do(ctx, letter, write)
		fmt.Println(d.Verdict, d.State, err)
	}
	// Output:
	// replay SUCCEEDED <nil>
	// replay SUCCEEDED <nil>
}
