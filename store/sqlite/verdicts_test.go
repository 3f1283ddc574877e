package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/sqlite"
)

// pair are two instances on one file, as two processes have.
func pair(t *testing.T) []*sqlite.Store {
	t.Helper()
	config := sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db"), Migrate: true, BusyTimeout: 250 * time.Millisecond}
	return []*sqlite.Store{open(t, config), open(t, config)}
}

// insist asks again while the file is locked.
func insist[T any](t *testing.T, f func(ctx context.Context) (T, error)) (T, error) {
	t.Helper()
	for {
		got, err := f(t.Context())
		if retryproof.CodeOf(err) != retryproof.CodeConflict || t.Context().Err() != nil {
			return got, err
		}
	}
}

func beginning(endpoint, key, owner string, row any) effect.Begin {
	scope := retryproof.Scope{Endpoint: endpoint, Caller: "u1", Key: retryproof.Key(key)}
	return effect.Begin{Scope: scope, GuardID: retryproof.Of("id", scope), Fingerprint: "1=x", Owner: owner, Now: noon, Until: noon.Add(5 * time.Second), Row: row}
}

func TestAVoidAndAFirstRequestAtOnceHaveOneWinner(t *testing.T) {
	t.Parallel()
	stores := pair(t)
	const keys = 25
	var wg sync.WaitGroup
	seen := make([]effect.Seen, 2*keys)
	for i := range seen {
		b := beginning("orders", fmt.Sprint("K", i/2), fmt.Sprint("owner", i), nil)
		if b.Void = i%2 == 1; b.Void {
			b.Until = noon.Add(time.Hour)
		}
		wg.Go(func() {
			var err error
			seen[i], err = insist(t, func(ctx context.Context) (effect.Seen, error) { return stores[(i/2+i)%2].Effects().Begin(ctx, b) })
			if err != nil {
				t.Errorf("got error %v, want none", err)
			}
		})
	}
	wg.Wait()
	for k := range keys {
		request, void := seen[2*k], seen[2*k+1]
		began := request.Guard.State == effect.Pending && request.Claim.State == effect.InProgress && void.Guard.State == effect.Pending
		voided := request.Guard.State == effect.Void && request.Claim.State == effect.ClaimVoid && void.Claim.State == effect.ClaimVoid
		if !began && !voided {
			t.Errorf("key %d: the request saw %+v, %+v and the void %+v, %+v", k, request.Claim, request.Guard, void.Claim, void.Guard)
		}
	}
}

// paid records a payment of u1's that has succeeded.
func paid(t *testing.T, s *sqlite.Store, key string, amount int64) retryproof.ID {
	t.Helper()
	b := beginning("payments", key, "a", payments.Payment{OrderID: "o1", MerchantID: "m1", Amount: amount, Currency: "USD", Method: "card"})
	if _, err := s.Payments().Effects.Begin(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	out, err := s.Payments().Effects.Settle(t.Context(), effect.Settle{ID: b.GuardID, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "a", Now: noon})
	if err != nil || !out.Moved {
		t.Fatalf("got %+v and error %v, want a payment", out, err)
	}
	return b.GuardID
}

func refunding(key string, payment retryproof.ID, amount int64) effect.Begin {
	return beginning("refunds", key, "a", payments.Refund{PaymentID: payment, Amount: amount, Currency: "USD"})
}

func wantRefunded(t *testing.T, s *sqlite.Store, payment retryproof.ID, want int64) {
	t.Helper()
	p, err := s.Payments().Ledger.Payment(t.Context(), payment)
	if err != nil || p.Refunded != want {
		t.Errorf("got %d refunded and error %v, want %d", p.Refunded, err, want)
	}
	if a, err := s.Payments().Ledger.Audit(t.Context()); err != nil || a.WrongRefunded != 0 {
		t.Errorf("got %d wrong sums and error %v, want none", a.WrongRefunded, err)
	}
}

func TestRefundsAtOnceNeverExceedThePayment(t *testing.T) {
	t.Parallel()
	stores := pair(t)
	payment := paid(t, stores[0], "P1", 3000)
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = insist(t, func(ctx context.Context) (effect.Seen, error) {
				return stores[i%2].Payments().Refunds.Begin(ctx, refunding(fmt.Sprint("R", i), payment, 1000))
			})
		})
	}
	wg.Wait()
	begun := 0
	for _, err := range errs {
		if err == nil {
			begun++
		} else if retryproof.CodeOf(err) != retryproof.CodeExceeds || retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("got error %v, want NotDone and CodeExceeds", err)
		}
	}
	all, err := stores[0].Payments().Ledger.Refunds(t.Context(), payment)
	if err != nil || begun != 3 || len(all) != 3 {
		t.Errorf("got %d begun, %d refunds and error %v, want 3 of each", begun, len(all), err)
	}
	wantRefunded(t, stores[1], payment, 3000)
}

// Operations that wait for the file commit together, each with its own verdict.
func TestARefusedRefundDoesNotUndoItsGroup(t *testing.T) {
	t.Parallel()
	s, db := sqliteDB(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db"), Migrate: true})
	small := paid(t, s, "P1", 10)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ask := func(store effect.Store, b effect.Begin, want retryproof.Code) {
		wg.Go(func() {
			if _, err := store.Begin(t.Context(), b); retryproof.CodeOf(err) != want {
				t.Errorf("got error %v, want code %q", err, want)
			}
		})
	}
	for i := range 8 {
		ask(s.Effects(), beginning("orders", fmt.Sprint("K", i), "a", nil), "")
	}
	ask(s.Payments().Refunds, refunding("R1", small, 11), retryproof.CodeExceeds)
	ask(s.Payments().Refunds, refunding("R2", small, 10), "")
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	wantRefunded(t, s, small, 10)
	if guards, claims := count(t, db, "guards"), count(t, db, "claims WHERE client_key = 'R1'"); guards != 8 || claims != 0 {
		t.Errorf("got %d guards and %d claims of the refused refund, want 8 and 0", guards, claims)
	}
}

func TestARefundThatFailsWithinATransactionGivesBackAndKeepsEvidence(t *testing.T) {
	t.Parallel()
	s, db := database(t)
	payment := paid(t, s, "P1", 1000)
	b := refunding("R1", payment, 1000)
	if _, err := s.Payments().Refunds.Begin(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	m := effect.Settle{ID: b.GuardID, From: []effect.State{effect.Pending}, To: effect.Failed, By: "operator", Now: noon,
		Row:      payments.RefundOutcome{RefundID: "re_1", FailureCode: "closed"},
		Evidence: &effect.Evidence{Name: "verdict", Kind: effect.EvidenceVerdict, By: "operator", Seen: "{}", At: noon},
		Note:     &effect.Evidence{Name: "note", Kind: effect.EvidenceConflict, By: "psp", Seen: "?", At: noon}}
	for turn, commit := range []bool{false, true, true} {
		tx := begin(t, db)
		out, err := sqlite.Within(tx).SettleRefund(t.Context(), m)
		if commit && err == nil {
			err = tx.Commit()
		} else if err == nil {
			err = tx.Rollback()
		}
		if want := turn < 2; err != nil || out.Moved != want || out.Noted != want {
			t.Fatalf("turn %d: got %+v and error %v, want moved and noted %v", turn, out, err, want)
		}
	}
	wantRefunded(t, s, payment, 0)
	kept, err := s.Payments().DueRefunds.Evidence(t.Context(), b.GuardID)
	if err != nil || len(kept) != 2 || kept[0].Name != "note" || kept[1].Name != "verdict" {
		t.Errorf("got %+v and error %v, want both", kept, err)
	}
}

// A program of the earlier schema wrote payments before, and goes on after, refunds came.
func TestPaymentsOfTheEarlierSchemaCanBeRefunded(t *testing.T) {
	t.Parallel()
	config := sqlite.Config{Path: filepath.Join(t.TempDir(), "test.db")}
	migrate(t, config, sqlite.Up)
	for state := migrate(t, config, sqlite.Status); state[1].Applied; {
		state = migrate(t, config, sqlite.Down)
	}
	old := func(id string) {
		db, err := sql.Open("sqlite", config.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		exec(t, db, `INSERT INTO payments (payment_id, client_key, caller_id, endpoint, fingerprint, state, owner, settled_by, tries, created_at, updated_at,
			order_id, merchant_id, amount, currency, payment_method, psp_charge, decline_code)
			VALUES (?1, ?1, 'u1', 'payments', '1=x', 'SUCCEEDED', '', 'a', 0, 1, 1, 'o1', 'm1', 3000, 'USD', 'card', 'ch_1', '')`, id)
	}
	old("pay_before")
	migrate(t, config, sqlite.Up)
	old("pay_after")
	s := open(t, config)
	found, err := s.Payments().Ledger.Payments(t.Context(), payments.Query{Limit: 10})
	if err != nil || len(found) != 2 || found[0].ID != "pay_after" || found[1].ID != "pay_before" {
		t.Fatalf("got %+v and error %v, want both", found, err)
	}
	for _, p := range found {
		wantRefunded(t, s, p.ID, 0)
		if _, err := s.Payments().Refunds.Begin(t.Context(), refunding("R"+string(p.ID), p.ID, 3000)); err != nil {
			t.Errorf("%s: got error %v, want a refund", p.ID, err)
		}
		wantRefunded(t, s, p.ID, 3000)
	}
}
