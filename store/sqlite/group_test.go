package sqlite_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/sqlite"
)

func entryOf(ref string, amount int64) []ledger.Posting {
	return []ledger.Posting{{Account: "merchant:m1", Currency: "USD", Amount: amount, Ref: ref}, {Account: "cash", Currency: "USD", Amount: -amount, Ref: ref}}
}

// One bad operation among those that share a commit: each gets its own verdict.
func TestOneThatFailsSpoilsNobodyOfItsGroup(t *testing.T) {
	t.Parallel()
	s, _ := file(t, sqlite.Config{})
	if err := s.Payments().Ledger.Post(t.Context(), entryOf("taken", 1), noon); err != nil {
		t.Fatal(err)
	}
	const callers, bad = 9, 4
	errs := make([]error, callers)
	var wg sync.WaitGroup
	err := s.Transact(t.Context(), func(*sql.Tx) error { // nobody else writes until all of them wait
		for i := range callers {
			wg.Go(func() {
				ref, amount := fmt.Sprintf("r%d", i), int64(10)
				if i == bad {
					ref, amount = "taken", 7
				}
				errs[i] = s.Payments().Ledger.Post(t.Context(), entryOf(ref, amount), noon)
			})
		}
		for s.Waiting() < callers && t.Context().Err() == nil {
		}
		return nil
	})
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if i == bad && retryproof.CodeOf(err) != retryproof.CodeInvalid || i != bad && err != nil {
			t.Errorf("caller %d: got error %v, want a refusal of number %d alone", i, err, bad)
		}
	}
	if got, err := s.Payments().Ledger.Balance(t.Context(), "merchant:m1", "USD"); got != 1+10*(callers-1) || err != nil {
		t.Errorf("got balance %d and error %v, want %d", got, err, 1+10*(callers-1))
	}
}

// A settlement that is refused after its guard has moved leaves nothing in a transaction
// that goes on and commits.
func TestARefusedSettlementLeavesNothingInATransactionThatCommits(t *testing.T) {
	t.Parallel()
	s, db := database(t)
	b := beginning("orders", "K1", "a", nil)
	if _, err := s.Effects().Begin(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Payments().Ledger.Post(t.Context(), entryOf("taken", 1), noon); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, db)
	_, err := sqlite.Within(tx).Settle(t.Context(), effect.Settle{ID: b.GuardID, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "a", Fenced: true, Now: noon,
		Postings: append(entryOf("new", 5), entryOf("taken", 2)...), Events: []retryproof.Event{newEvent("e1")}})
	if retryproof.CodeOf(err) != retryproof.CodeInvalid {
		t.Errorf("got error %v, want a refusal", err)
	}
	exec(t, tx, "INSERT INTO audit VALUES ('refused')")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	seen, err := s.Effects().Look(t.Context(), effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: noon})
	if err != nil || seen.Guard == nil || seen.Guard.State != effect.Pending || seen.Guard.Owner != "a" {
		t.Errorf("got %+v and error %v, want the guard as it was", seen.Guard, err)
	}
	if got := count(t, db, "postings"); got != 2 || waiting(t, s) != 0 || count(t, db, "audit") != 1 {
		t.Errorf("got %d postings, %d events and %d rows of the program's, want 2, 0 and 1", got, waiting(t, s), count(t, db, "audit"))
	}
}
