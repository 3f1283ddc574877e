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

	items := memory.New().Locators()
	m9 := locator.Name{Kind: "mail", Owner: "u1", ID: "m9"}
	parse := func() {
		r, err := items.Put(ctx, locator.Put{Name: m9, Place: "Inbox", Value: []byte("blob 9")})
		fmt.Printf("%v at %q, %v\n", r.Verdict, r.Record.Place, err)
	}
	parse() // created
	_, _ = items.Move(ctx, locator.Move{Name: m9, From: "Inbox", To: "Archive", Revision: 1})
	parse() // exists, at Archive
	_, _ = items.Delete(ctx, locator.Delete{Name: m9})
	parse() // gone
	inbox, err := items.List(ctx, locator.List{Kind: "mail", Owner: "u1", Place: "Inbox", Limit: 10})
	fmt.Println(len(inbox), "in Inbox", err)
	// Output:
	// created at "Inbox", <nil>
	// exists at "Archive", <nil>
	// gone at "", <nil>
	// 0 in Inbox <nil>
}
