package retryproof_test

import (
	"fmt"

	"github.com/retryproof/retryproof"
)

// What every hop computes from one request: the same parts give the same names, on any
// machine, in any year.
func Example() {
	key, err := retryproof.ParseKey("3f0a6c1e-8f3e-4c55-9d3b-0f4f7e0f6a11")
	if err != nil {
		fmt.Println(err)
		return
	}
	scope := retryproof.Scope{Endpoint: "POST /payments", Caller: "u1", Key: key}
	id := retryproof.Of("pay", scope)
	fmt.Println(id == retryproof.Of("pay", scope))
	fmt.Println(id.Sub("charge") == string(id)+":charge")

	first := retryproof.FingerprintOf(retryproof.Int("amount", 3000), retryproof.Text("currency", "USD"))
	other := retryproof.FingerprintOf(retryproof.Int("amount", 3500), retryproof.Text("currency", "USD"))
	fmt.Println(first == other)
	// Output:
	// true
	// true
	// false
}

func ExampleParseKey() {
	_, err := retryproof.ParseKey("ann@example.com")
	fmt.Println(retryproof.CodeOf(err), retryproof.OutcomeOf(err))
	// Output: key-malformed not done
}
