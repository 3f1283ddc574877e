package effect_test

import (
	"context"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/memory"
)

// busyKeys is a key store with a held lock for its first claims.
type busyKeys struct {
	effect.Keys
	busy int
}

func (k *busyKeys) ClaimKey(ctx context.Context, b effect.Begin) (*effect.Claim, error) {
	if k.busy > 0 {
		k.busy--
		return nil, retryproof.Refused(retryproof.CodeConflict, "a lock is held", nil)
	}
	return k.Keys.ClaimKey(ctx, b)
}

func TestABusyKeyStoreIsAskedAgainAndNotTakenForOneThatIsDown(t *testing.T) {
	t.Parallel()
	s := memory.New()
	keys := &busyKeys{Keys: s.Keys(), busy: 2}
	engine, err := effect.New(effect.Split(keys, s.Guards()), effect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	scope := retryproof.Scope{Endpoint: "orders", Caller: "u1", Key: "k1"}
	d, a, err := engine.Begin(context.Background(), effect.Request{Scope: scope, Fingerprint: retryproof.FingerprintOf(retryproof.Text("order", "1"))})
	if err != nil || a == nil {
		t.Fatalf("got %v, %v, want an attempt", d.Verdict, err)
	}
	if d.Claim == nil {
		t.Error("the claim: got none, want the one that the second question made")
	}
}
