package reconcile_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/reconcile"
)

// A day's records are compared, and what is unknown here and definite there is closed.
func ExampleRun() {
	ours, theirs := &books{}, &books{}
	ours.add("pay_1", "ch_1", effect.Succeeded, time.Hour)
	theirs.add("pay_1", "ch_1", effect.Succeeded, time.Hour)
	ours.add("pay_2", "", effect.Unknown, 2*time.Hour)
	theirs.add("pay_2", "ch_2", effect.Succeeded, 2*time.Hour)
	ours.add("pay_3", "", effect.Unknown, 3*time.Hour)
	theirs.add("", "ch_4", effect.Succeeded, 4*time.Hour)

	r, err := reconcile.Run(context.Background(), ours, theirs, start, start.Add(24*time.Hour), reconcile.Config{Settle: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2026-03-01T12:00:00Z to 2026-03-02T12:00:00Z: 3 records here, 3 there, 3 differences, 1 unknowns closed
	// kind          reference  there               here              what
	// missing-here             SUCCEEDED 3000 USD  –                 ch_4 of 3000 USD succeeded there and is not here
	// closed        pay_2      SUCCEEDED 3000 USD  UNKNOWN 3000 USD  it is UNKNOWN here and SUCCEEDED there
	// unproved      pay_3      –                   UNKNOWN 3000 USD  it is UNKNOWN here, and they have no outcome of it: that proves nothing
}
