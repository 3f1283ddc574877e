package version_test

import (
	"context"
	"fmt"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/store/memory"
	"github.com/retryproof/retryproof/version"
)

// A phone likes a post, takes it back, and the first message comes once more, last.
func Example() {
	ctx := context.Background()
	store := memory.New().Versions()
	phone := version.Line{Stream: "likes", Caller: "u1", Device: "D1"}
	send := func(n int64, state string) {
		r, err := store.Apply(ctx, version.Write{Line: phone, Subject: "post 7", Version: n, Action: fmt.Sprint("act_", n), Value: []byte(state)})
		fmt.Printf("%d %s: %v, now %s %v\n", n, state, r.Verdict, r.Mark.Value, err)
	}
	send(41, "liked")
	send(42, "unliked")
	send(41, "liked")
	// Output:
	// 41 liked: applied, now liked <nil>
	// 42 unliked: applied, now unliked <nil>
	// 41 liked: stale, now unliked <nil>
}

// A device counts its actions. A late copy of the first one does not undo the second.
func ExampleCounter() {
	ctx := context.Background()

	marks := memory.New().Versions() // or sqlite, postgres
	phone := version.Line{Stream: "likes", Caller: "u1", Device: "D1"}
	counter, _ := version.NewCounter(&version.MemoryJournal{}, phone) // OpenFileJournal(dir) on a device
	var sent []version.Write
	for _, state := range []string{"liked", "unliked"} {
		n, _ := counter.Next(ctx) // once per action, kept with its key
		sent = append(sent, version.Write{Line: phone, Subject: "post 7", Version: n,
			Action: fmt.Sprint("act_", n), Value: []byte(state), Now: clock.System().Now()})
	}
	for _, w := range append(sent, sent[0]) { // the first once more, last
		r, err := marks.Apply(ctx, w)
		fmt.Println(r.Verdict, string(r.Mark.Value), err) // applied, repeat, stale or mismatch; what stands
	}
	last, _ := marks.Last(ctx, phone) // reinstalled? nil when there is none
	fmt.Println(last.Version, last.Action)
	// Output:
	// applied liked <nil>
	// applied unliked <nil>
	// stale unliked <nil>
	// 2 act_2
}

// An app was installed again and has lost its journal. It asks for its last action
// before it lets the user act, and goes on counting behind it.
func ExampleCounter_Restore() {
	ctx := context.Background()
	store := memory.New().Versions()
	line := version.Line{Stream: "orders", Caller: "u1", Device: "D1"}
	order := func(c *version.Counter, what string) {
		n, _ := c.Next(ctx)
		r, _ := store.Apply(ctx, version.Write{Line: line, Version: n, Action: "order_" + what, Value: []byte("accepted " + what)})
		fmt.Println(n, r.Verdict, string(r.Mark.Value))
	}
	before, _ := version.NewCounter(&version.MemoryJournal{}, line)
	order(before, "A")
	order(before, "B")

	after, _ := version.NewCounter(&version.MemoryJournal{}, line) // empty
	last, _ := store.Last(ctx, line)
	fmt.Println("your last order:", last.Action, string(last.Value))
	_ = after.Restore(ctx, last.Version)
	order(after, "C")
	// Output:
	// 1 applied accepted A
	// 2 applied accepted B
	// your last order: order_B accepted B
	// 3 applied accepted C
}
