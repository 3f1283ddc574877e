package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/postgres"
)

func entryOf(ref string, amount int64) []ledger.Posting {
	return []ledger.Posting{{Account: "merchant:m1", Currency: "USD", Amount: amount, Ref: ref}, {Account: "cash", Currency: "USD", Amount: -amount, Ref: ref}}
}

// No call can write half of an entry, so the half is planted.
func TestAuditFindsAnUnbalancedRefAndAWrongBalance(t *testing.T) {
	t.Parallel()
	place := database(t)
	s := open(t, postgres.Config{URL: place})
	run(t, place, "INSERT INTO postings (ref, line, account, currency, amount, created_at) VALUES ('ref', 0, 'merchant:m1', 'USD', 5, 0)")
	a, err := s.Payments().Ledger.Audit(t.Context())
	if err != nil || a.Unbalanced != 1 || a.WrongBalance != 1 {
		t.Errorf("got %+v and error %v, want one unbalanced ref and one wrong balance", a, err)
	}
}

// A settlement that is refused after its guard has moved leaves nothing in the caller's
// transaction, which may commit. One whose entry is there exactly goes on.
func TestRefusedSettlementLeavesTheCallersTransactionClean(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *postgres.Store, begin func() transaction) {
		if err := s.Payments().Ledger.Post(t.Context(), entryOf("r", 5), noon); err != nil {
			t.Fatal(err)
		}
		b := beginning("K1", "a")
		if _, err := s.Effects().Begin(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		key := retryproof.InboxKey{Consumer: "c", Source: "s", EventID: "e"}
		m := effect.Settle{ID: b.GuardID, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "a", Fenced: true, Now: noon,
			Inbox: &key, Postings: entryOf("r", 6), Events: []retryproof.Event{newEvent("e1")}}
		tx := begin()
		_, err := tx.within().Settle(t.Context(), m)
		wantRefusal(t, "another entry", err, retryproof.CodeInvalid)
		if err := errors.Join(tx.exec("INSERT INTO audit VALUES ('kept')"), tx.end(true)); err != nil {
			t.Fatal(err)
		}
		if rows, noted, events := count(t, s, "audit"), count(t, s, "inbox"), count(t, s, "outbox"); rows != 1 || noted != 0 || events != 0 {
			t.Errorf("got %d rows of the caller's, %d messages and %d events, want 1, 0 and 0", rows, noted, events)
		}
		m.Postings = entryOf("r", 5)
		tx = begin()
		out, err := tx.within().Settle(t.Context(), m)
		if err = errors.Join(err, tx.end(true)); err != nil || !out.Moved || count(t, s, "postings") != 2 {
			t.Errorf("the same entry: got %+v and error %v, want it moved and two postings", out, err)
		}
	})
}

// An open transaction has written an entry that the caller's cannot see yet.
func TestEntryOfAnotherOpenTransactionIsWaitedFor(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *postgres.Store, begin func() transaction) {
		for turn, c := range []struct {
			amount int64
			want   retryproof.Code
		}{{5, ""}, {6, retryproof.CodeInvalid}} {
			ref := fmt.Sprint("r", turn)
			settles := func(key string, amount int64) effect.Settle {
				b := beginning(fmt.Sprint(key, turn), "a")
				if _, err := s.Effects().Begin(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				return effect.Settle{ID: b.GuardID, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "a", Fenced: true, Now: noon, Postings: entryOf(ref, amount)}
			}
			first, second := settles("K", 5), settles("L", c.amount)
			one, two := begin(), begin()
			if _, err := one.within().Settle(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := two.within().Settle(t.Context(), second)
				done <- errors.Join(err, two.end(true))
			}()
			for blocked := false; !blocked && t.Context().Err() == nil; {
				if err := s.Pool().QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid')").Scan(&blocked); err != nil {
					t.Fatal(err)
				}
			}
			if err := one.end(true); err != nil {
				t.Fatal(err)
			}
			if err := <-done; retryproof.CodeOf(err) != c.want {
				t.Errorf("amount %d: got error %v, want code %q", c.amount, err, c.want)
			}
		}
		a, err := s.Payments().Ledger.Audit(t.Context())
		if err != nil || a.Unbalanced != 0 || a.WrongBalance != 0 {
			t.Errorf("got %+v and error %v, want a journal that balances", a, err)
		}
	})
}
