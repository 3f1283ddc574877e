package sqlite_test

import (
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/sqlite"
)

// No call can write half of an entry, so the half is planted.
func TestAuditFindsAnUnbalancedRefAndAWrongBalance(t *testing.T) {
	t.Parallel()
	s, db := database(t)
	exec(t, db, "INSERT INTO postings (ref, account, currency, amount, created_at) VALUES ('ref', 'merchant:m1', 'USD', 5, 0)")
	a, err := s.Payments().Ledger.Audit(t.Context())
	if err != nil || a.Unbalanced != 1 || a.WrongBalance != 1 {
		t.Errorf("got %+v and error %v, want one unbalanced ref and one wrong balance", a, err)
	}
}

// A settlement that is refused after its guard has moved leaves nothing in the caller's
// transaction, which may commit.
func TestRefusedSettlementLeavesTheCallersTransactionClean(t *testing.T) {
	t.Parallel()
	s, db := database(t)
	entry := func(amount int64) []ledger.Posting {
		return []ledger.Posting{{Account: "merchant:m1", Currency: "USD", Amount: amount, Ref: "r"}, {Account: "cash", Currency: "USD", Amount: -amount, Ref: "r"}}
	}
	if err := s.Payments().Ledger.Post(t.Context(), entry(5), noon); err != nil {
		t.Fatal(err)
	}
	scope := retryproof.Scope{Endpoint: "orders", Caller: "u1", Key: "K1"}
	b := effect.Begin{Scope: scope, GuardID: retryproof.Of("order", scope), Fingerprint: "1=x", Owner: "a", Now: noon, Until: noon.Add(5 * time.Second)}
	if _, err := s.Effects().Begin(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	key := retryproof.InboxKey{Consumer: "c", Source: "s", EventID: "e"}
	tx := begin(t, db)
	exec(t, tx, "INSERT INTO audit VALUES ('kept')")
	_, err := sqlite.Within(tx).Settle(t.Context(), effect.Settle{ID: b.GuardID, From: []effect.State{effect.Pending}, To: effect.Succeeded,
		By: "a", Fenced: true, Now: noon, Inbox: &key, Postings: entry(6), Events: []retryproof.Event{newEvent("e1")}})
	if retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != retryproof.CodeInvalid {
		t.Errorf("got error %v, want NotDone and CodeInvalid", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if rows, noted, events := count(t, db, "audit"), count(t, db, "inbox"), waiting(t, s); rows != 1 || noted != 0 || events != 0 {
		t.Errorf("got %d rows of the caller's, %d messages and %d events, want 1, 0 and 0", rows, noted, events)
	}
	seen, err := s.Effects().Look(t.Context(), effect.Look{Scope: scope, GuardID: b.GuardID, Now: noon})
	if err != nil || seen.Guard.State != effect.Pending {
		t.Errorf("got %+v and error %v, want a guard that is PENDING", seen.Guard, err)
	}
}
