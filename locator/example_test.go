package locator_test

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/store/memory"
)

// A queue delivers the parse of message m9 again after the user has archived it, and
// again after it was deleted.
func Example() {
	ctx := context.Background()
	store := memory.New().Locators()
	m9 := locator.Name{Kind: "mail", Owner: "u1", ID: "m9"}
	parse := func() {
		r, err := store.Put(ctx, locator.Put{Name: m9, Place: "Inbox", Value: []byte("blob 9")})
		inbox, _ := store.List(ctx, locator.List{Kind: "mail", Owner: "u1", Place: "Inbox", Limit: 10})
		fmt.Printf("%v at %q, %d in Inbox %v\n", r.Verdict, r.Record.Place, len(inbox), err)
	}
	parse()
	_, _ = store.Move(ctx, locator.Move{Name: m9, From: "Inbox", To: "Archive", Revision: 1})
	parse()
	_, _ = store.Delete(ctx, locator.Delete{Name: m9})
	parse()
	// Output:
	// created at "Inbox", 1 in Inbox <nil>
	// exists at "Archive", 0 in Inbox <nil>
	// gone at "", 0 in Inbox <nil>
}
