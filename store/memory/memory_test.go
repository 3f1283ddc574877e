package memory_test

import (
	"context"
	"testing"

	"github.com/retryproof/retryproof/store/memory"
	"github.com/retryproof/retryproof/store/storetest"
)

// suiteStores opens an empty store. A second "process" shares it, as nothing else
// can see this memory; there is no restart.
func suiteStores(*testing.T) storetest.Stores {
	s := memory.New()
	stores := storetest.Stores{
		Sagas: s.Sagas(), Marks: s.Marks(),
		Payments: s.Payments(), Effects: s.Effects(), Due: s.Due(), Keys: s.Keys(), Guards: s.Guards(), PaymentGuards: s.PaymentGuards(),
		Versions: s.Versions(), Locators: s.Locators(),
		RefundGuards: s.RefundGuards(),
	}
	stores.Within = func(_ context.Context, fn func(tx storetest.Tx) error) error {
		return s.Within(func(tx *memory.Tx) error { return fn(tx) })
	}
	stores.Second = func(*testing.T) storetest.Stores { return stores }
	return stores
}

func TestStoreKeepsEveryPromiseOfTheSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Traits{Volatile: true, RetriesInside: true}, suiteStores)
}
