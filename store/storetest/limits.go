package storetest

import (
	"context"
	"math/rand/v2"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
)

func limitCases() []testCase {
	return []testCase{
		{"LongestNamesAreKept", longestNames},
		{"LongerNamesAreRefusedByEveryStoreAlike", longerNames},
	}
}

// names makes texts that no index can compress.
type names struct{ random *rand.Rand }

func (n names) of(length int) string {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte(0x21 + n.random.IntN(0x7e-0x21+1))
	}
	return string(b)
}

func (n names) begin(endpoint, caller, key, id int) effect.Begin {
	scope := retryproof.Scope{Endpoint: n.of(endpoint), Caller: n.of(caller), Key: retryproof.Key(n.of(key))}
	return effect.Begin{Scope: scope, GuardID: retryproof.ID(n.of(id)), Fingerprint: "1=x", Owner: "A1", Now: at(0), Until: at(5),
		Row: payments.Payment{OrderID: "42", MerchantID: "m1", Amount: 1, Currency: "USD", Method: "pm_1"}}
}

// apply has a message, an entry, an intent and an event whose names are so long.
func (n names) apply(message, account, ref, intent, event, group int) inbox.Apply {
	entry := n.of(ref)
	return inbox.Apply{Key: retryproof.InboxKey{Consumer: n.of(message), Source: n.of(message), EventID: n.of(message)}, Now: at(0),
		Postings: []ledger.Posting{{Account: "merchant:" + n.of(account-len("merchant:")), Currency: "USD", Amount: 1, Ref: entry},
			{Account: n.of(account), Currency: "USD", Amount: -1, Ref: entry}},
		Intents: []notify.Intent{{Key: notify.Key{EventID: n.of(intent), Channel: n.of(intent)}, To: "u1", CreatedAt: at(0)}},
		Events:  []retryproof.Event{{ID: n.of(event), Group: n.of(group), At: at(0)}}}
}

const (
	maxEndpoint, maxCaller = retryproof.MaxEndpointBytes, retryproof.MaxCallerBytes
	maxKey, maxID          = retryproof.MaxKeyBytes, retryproof.MaxIDBytes
)

// case 9: what is accepted fits every index, with random bytes too.
func longestNames(w *world) {
	n := names{rand.New(rand.NewPCG(2, 9))}
	b := n.begin(maxEndpoint, maxCaller, maxKey, maxID)
	seen := must(w, func(ctx context.Context) (effect.Seen, error) { return w.Payments.Effects.Begin(ctx, b) })
	check(w, "the claim is there", seen.Claim != nil && seen.Claim.Scope == b.Scope, true)
	check(w, "the guard is there", seen.Guard != nil && seen.Guard.ID == b.GuardID && seen.Guard.Scope == b.Scope, true)
	a := n.apply(maxID, maxID, maxID, maxID, maxID, maxID)
	first := must(w, func(ctx context.Context) (bool, error) { return w.Payments.Inbox.Apply(ctx, a) })
	check(w, "first", first, true)
}

// case 9: what no index could hold is refused before anything is written, and for good:
// no retry can help.
func longerNames(w *world) {
	n := names{rand.New(rand.NewPCG(3, 9))}
	refused := func(what string, code retryproof.Code, err error) {
		w.Helper()
		check(w, what+": the code", retryproof.CodeOf(err), code)
		check(w, what+": the outcome", retryproof.OutcomeOf(err), retryproof.NotDone)
	}
	for what, b := range map[string]effect.Begin{ // order: each is asked alone
		"endpoint": n.begin(maxEndpoint+1, 2, 2, 2),
		"caller":   n.begin(2, maxCaller+1, 2, 2),
		"guard":    n.begin(2, 2, 2, maxID+1),
	} {
		_, err := w.Payments.Effects.Begin(w.Context(), b)
		refused(what, retryproof.CodeInvalid, err)
	}
	_, err := w.Payments.Effects.Begin(w.Context(), n.begin(2, 2, maxKey+1, 2))
	refused("key", retryproof.CodeKeyMalformed, err)
	for what, a := range map[string]inbox.Apply{ // order: each is asked alone
		"message": n.apply(maxID+1, 20, 20, 20, 20, 20),
		"account": n.apply(20, maxID+1, 20, 20, 20, 20),
		"ref":     n.apply(20, 20, maxID+1, 20, 20, 20),
		"intent":  n.apply(20, 20, 20, maxID+1, 20, 20),
		"event":   n.apply(20, 20, 20, 20, maxID+1, 20),
		"group":   n.apply(20, 20, 20, 20, 20, maxID+1),
	} {
		_, err := w.Payments.Inbox.Apply(w.Context(), a)
		refused(what, retryproof.CodeInvalid, err)
	}
}
