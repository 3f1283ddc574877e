package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/memory"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// begun returns a store with one PENDING guard of the generic table.
func begun(t *testing.T) (*memory.Store, effect.Begin) {
	t.Helper()
	s := memory.New()
	scope := retryproof.Scope{Endpoint: "jobs", Caller: "u1", Key: "k"}
	b := effect.Begin{
		Scope: scope, GuardID: retryproof.Of("effect", scope), Fingerprint: retryproof.FingerprintOf(retryproof.Int("n", 1)),
		Owner: "A", Now: noon, Until: noon.Add(5 * time.Second),
	}
	if _, err := s.Effects().Begin(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return s, b
}

func settlement(b effect.Begin) effect.Settle {
	return effect.Settle{
		ID: b.GuardID, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "A", Fenced: true, Now: noon,
		Postings: []ledger.Posting{{Account: "a", Currency: "USD", Amount: 5, Ref: "r"}, {Account: "b", Currency: "USD", Amount: -5, Ref: "r"}},
		Events:   []retryproof.Event{{ID: "done", Group: "g", At: noon}},
		Claim:    &effect.Completion{Scope: b.Scope, Owner: "A", Answer: &effect.Answer{Status: 200}, ExpiresAt: noon.Add(time.Hour)},
	}
}

func waiting(t *testing.T, s *memory.Store) int64 {
	t.Helper()
	st, err := s.Outbox().Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st.Waiting
}

func TestSettleInATransactionCommitsWithTheRest(t *testing.T) {
	t.Parallel()
	s, b := begun(t)
	ctx := t.Context()
	err := s.Within(func(tx *memory.Tx) error {
		out, err := tx.Settle(ctx, settlement(b))
		if err != nil || !out.Moved || out.Guard.State != effect.Succeeded {
			t.Errorf("got moved=%v, error %v, want a move to SUCCEEDED", out.Moved, err)
		}
		if got := waiting(t, s); got != 0 {
			t.Errorf("before the commit: got %d events, want 0", got)
		}
		_, again := tx.Settle(ctx, settlement(b))
		if retryproof.CodeOf(again) != retryproof.CodeInvalid {
			t.Errorf("settled twice: got %v, want a refusal", again)
		}
		return tx.Intend(ctx, notify.Intent{Key: notify.Key{EventID: "done", Channel: "push"}, CreatedAt: noon})
	})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := s.Effects().Look(ctx, effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: noon})
	if err != nil || seen.Guard.State != effect.Succeeded || seen.Claim.State != effect.Complete {
		t.Errorf("got %+v, error %v, want a settled guard and a complete claim", seen, err)
	}
	intent, err := s.Notify().Intent(ctx, notify.Key{EventID: "done", Channel: "push"})
	if err != nil || intent == nil || intent.State != notify.Pending {
		t.Errorf("got intent %+v, error %v, want one that is PENDING", intent, err)
	}
	if got := waiting(t, s); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
}

func TestTransactionWhoseReadsChangedWritesNothing(t *testing.T) {
	t.Parallel()
	key := retryproof.InboxKey{Consumer: "c", Source: "s", EventID: "e"}
	for _, c := range []struct {
		name  string
		spoil func(ctx context.Context, s *memory.Store, b effect.Begin) error
	}{
		{"the guard was adopted", func(ctx context.Context, s *memory.Store, b effect.Begin) error {
			_, err := s.Guards().AdoptGuard(ctx, effect.Adopt{GuardID: b.GuardID, GuardFrom: "A", Owner: "B", To: effect.Unknown,
				Now: noon.Add(time.Minute), Until: noon.Add(2 * time.Minute), GuardOnly: true})
			return err
		}},
		{"the guard was released", func(ctx context.Context, s *memory.Store, b effect.Begin) error {
			_, err := s.Effects().Release(ctx, effect.Release{Scope: b.Scope, GuardID: b.GuardID, Owner: "A"})
			return err
		}},
		{"the message was applied", func(ctx context.Context, s *memory.Store, _ effect.Begin) error {
			_, err := s.Inbox().Apply(ctx, inbox.Apply{Key: key, Now: noon})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, b := begun(t)
			ctx := t.Context()
			err := s.Within(func(tx *memory.Tx) error {
				_, onceErr := tx.Once(ctx, key, noon)
				_, settleErr := tx.Settle(ctx, settlement(b))
				return errors.Join(onceErr, settleErr, c.spoil(ctx, s, b))
			})
			if retryproof.CodeOf(err) != retryproof.CodeConflict || retryproof.OutcomeOf(err) != retryproof.NotDone {
				t.Errorf("got %v, want a conflict", err)
			}
			if got := waiting(t, s); got != 0 {
				t.Errorf("got %d events, want 0", got)
			}
		})
	}
}

func TestApplyInATransactionIsOnce(t *testing.T) {
	t.Parallel()
	s := memory.New()
	a := inbox.Apply{Key: retryproof.InboxKey{Consumer: "c", Source: "s", EventID: "e"}, Now: noon, Events: []retryproof.Event{{ID: "f", Group: "g", At: noon}},
		Intents: []notify.Intent{{Key: notify.Key{EventID: "e", Channel: "push"}}}}
	var got []bool
	for range 3 {
		if err := s.Within(func(tx *memory.Tx) error {
			first, err := tx.Apply(t.Context(), a)
			got = append(got, first)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []bool{true, false, false}; got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := waiting(t, s); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
}

// A ref has one entry, also among those of one transaction.
func TestOtherEntryOfARefStopsTheWholeTransaction(t *testing.T) {
	t.Parallel()
	entry := func(amount int64) []ledger.Posting {
		return []ledger.Posting{{Account: "merchant:m1", Currency: "USD", Amount: amount, Ref: "r"}, {Account: "cash", Currency: "USD", Amount: -amount, Ref: "r"}}
	}
	s, b := begun(t)
	for _, c := range []struct {
		amounts []int64
		want    retryproof.Code
		balance int64
	}{{[]int64{5, 6}, retryproof.CodeInvalid, 0}, {[]int64{5, 5}, "", 5}, {[]int64{5}, "", 5}, {[]int64{7}, retryproof.CodeInvalid, 5}} {
		err := s.Within(func(tx *memory.Tx) error {
			for _, amount := range c.amounts {
				if err := tx.Post(t.Context(), entry(amount)); err != nil {
					return err
				}
			}
			return tx.Publish(t.Context(), retryproof.Event{ID: fmt.Sprint("e", c.amounts), Group: "g"})
		})
		if got := retryproof.CodeOf(err); got != c.want {
			t.Errorf("%v: got code %q (%v), want %q", c.amounts, got, err, c.want)
		}
		if got, err := s.Payments().Ledger.Balance(t.Context(), "merchant:m1", "USD"); got != c.balance || err != nil {
			t.Errorf("%v: got balance %d and error %v, want %d", c.amounts, got, err, c.balance)
		}
	}
	if got := waiting(t, s); got != 2 {
		t.Errorf("got %d events, want 2", got)
	}
	err := s.Within(func(tx *memory.Tx) error {
		m := settlement(b)
		m.Postings = entry(8)
		_, err := tx.Settle(t.Context(), m)
		return err
	})
	seen, lookErr := s.Effects().Look(t.Context(), effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: noon})
	if retryproof.CodeOf(err) != retryproof.CodeInvalid || lookErr != nil || seen.Guard.State != effect.Pending {
		t.Errorf("a settlement: got error %v and %+v (%v), want a refusal and a guard that is PENDING", err, seen.Guard, lookErr)
	}
}

// case 34: a goroutine that publishes after the commit must hear of it.
func TestPublishAfterTheCommitIsRefused(t *testing.T) {
	t.Parallel()
	s := memory.New()
	var late *memory.Tx
	if err := s.Within(func(tx *memory.Tx) error { late = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	err := late.Publish(context.Background(), retryproof.Event{ID: "e", Group: "g"})
	if retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("got %v, want an error that says NotDone", err)
	}
	if got := waiting(t, s); got != 0 {
		t.Errorf("got %d events, want 0", got)
	}
}

// The store is not locked while the program's function runs.
func TestStoreAnswersWhileATransactionIsOpen(t *testing.T) {
	t.Parallel()
	s := memory.New()
	err := s.Within(func(*memory.Tx) error {
		_, err := s.Outbox().Claim(t.Context(), outbox.Claim{Relay: "r", Now: noon, Until: noon, Limit: 1})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
