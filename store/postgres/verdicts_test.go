package postgres_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/postgres"
)

// eachLevel runs a test on two instances of one database, as two processes have.
func eachLevel(t *testing.T, test func(t *testing.T, place string, stores []*postgres.Store)) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run("store=postgres/isolation="+string(level), func(t *testing.T) {
			t.Parallel()
			place := database(t)
			config := postgres.Config{URL: place, Isolation: level, MaxConns: 4}
			test(t, place, []*postgres.Store{open(t, config), open(t, config)})
		})
	}
}

// insist asks again while a lock is held or others were faster.
func insist[T any](t *testing.T, f func(ctx context.Context) (T, error)) (T, error) {
	t.Helper()
	for {
		got, err := f(t.Context())
		if retryproof.CodeOf(err) != retryproof.CodeConflict || t.Context().Err() != nil {
			return got, err
		}
	}
}

func voiding(key, by string) effect.Begin {
	b := beginning(key, by)
	b.Void, b.Until = true, noon.Add(time.Hour)
	return b
}

// Whatever the order, one of the two is told that it won and the other that it lost.
func TestAVoidAndAFirstRequestAtOnceHaveOneWinner(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ string, stores []*postgres.Store) {
		const keys, callers = 25, 4
		asks := make([]effect.Begin, 0, keys*callers)
		for k := range keys {
			key := fmt.Sprint("K", k)
			asks = append(asks, beginning(key, "a"), voiding(key, "v"), beginning(key, "b"), voiding(key, "w"))
		}
		seen := make([]effect.Seen, len(asks))
		var wg sync.WaitGroup
		for i, b := range asks {
			wg.Go(func() {
				var err error
				seen[i], err = insist(t, func(ctx context.Context) (effect.Seen, error) { return stores[i%2].Effects().Begin(ctx, b) })
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for k := range keys {
			all := seen[k*callers : (k+1)*callers]
			runs := 0
			for i, s := range all {
				if !asks[i].Void && s.Claim.State == effect.InProgress && s.Claim.Owner == asks[i].Owner && s.Guard.Owner == asks[i].Owner {
					runs++
				}
			}
			now, err := stores[0].Effects().Look(t.Context(), effect.Look{Scope: asks[k*callers].Scope, GuardID: asks[k*callers].GuardID, Now: noon})
			if err != nil {
				t.Fatal(err)
			}
			voided := now.Guard.State == effect.Void && now.Claim.State == effect.ClaimVoid && runs == 0
			begun := now.Guard.State == effect.Pending && now.Claim.State == effect.InProgress && runs == 1
			if !voided && !begun {
				t.Errorf("key %d: %d run and the records are %+v and %+v, want a void and nobody, or a claim and one", k, runs, now.Guard, now.Claim)
			}
			for i, s := range all {
				if asks[i].Void && s.Guard.State != now.Guard.State {
					t.Errorf("key %d: a void was told %s, the guard is %s", k, s.Guard.State, now.Guard.State)
				}
			}
		}
	})
}

// A Guards half writes a guard without a claim: the void's claim must not survive it.
func TestAVoidThatIsOvertakenByAGuardLeavesNoClaim(t *testing.T) {
	eachLevel(t, func(t *testing.T, place string, stores []*postgres.Store) {
		b := beginning("K1", "a")
		conn := connection(t, place)
		defer func() { _ = conn.Close(context.Background()) }()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), `INSERT INTO guards (id, client_key, caller, endpoint, fingerprint, state, owner, settled_by, tries, created_at, updated_at)
			VALUES ($1, 'K1', 'u1', 'orders', 'x', 'PENDING', 'a', '', 0, 0, 0)`, string(b.GuardID))
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			seen effect.Seen
			err  error
		}
		done := make(chan answer, 1)
		go func() {
			seen, err := insist(t, func(ctx context.Context) (effect.Seen, error) {
				return stores[0].Effects().Begin(ctx, voiding("K1", "v"))
			})
			done <- answer{seen, err}
		}()
		waitForLock(t, stores[1], "guards")
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := <-done
		if got.err != nil || got.seen.Claim != nil || got.seen.Guard == nil || got.seen.Guard.State != effect.Pending {
			t.Errorf("got %+v and error %v, want the PENDING guard and no claim", got.seen, got.err)
		}
		if n := count(t, stores[1], "claims"); n != 0 {
			t.Errorf("got %d claims, want none", n)
		}
	})
}

// waitForLock waits until a statement that names the table waits for a transaction.
func waitForLock(t *testing.T, s *postgres.Store, named string) {
	t.Helper()
	for blocked := false; !blocked && t.Context().Err() == nil; {
		err := s.Pool().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%')`, named).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// paid records a payment of u1's that has succeeded.
func paid(t *testing.T, s *postgres.Store, key string, amount int64) retryproof.ID {
	t.Helper()
	b := paying(key, amount)
	if _, err := s.Payments().Effects.Begin(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	out, err := s.Payments().Effects.Settle(t.Context(), effect.Settle{ID: b.GuardID, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "a", Now: noon,
		Row: payments.Outcome{ChargeID: "ch_1"}})
	if err != nil || !out.Moved {
		t.Fatalf("got %+v and error %v, want a payment", out, err)
	}
	return b.GuardID
}

func paying(key string, amount int64) effect.Begin {
	b := beginning(key, "a")
	b.Scope.Endpoint = "payments"
	b.GuardID = retryproof.Of("pay", b.Scope)
	b.Row = payments.Payment{OrderID: "o1", MerchantID: "m1", Amount: amount, Currency: "USD", Method: "card"}
	return b
}

func refunding(key string, payment retryproof.ID, amount int64) effect.Begin {
	b := beginning(key, "a")
	b.Scope.Endpoint = "refunds"
	b.GuardID = retryproof.Of("ref", b.Scope)
	b.Row = payments.Refund{PaymentID: payment, Amount: amount, Currency: "USD"}
	return b
}

// wantRefunded checks a payment's sum, and all sums against their refunds.
func wantRefunded(t *testing.T, s *postgres.Store, payment retryproof.ID, want int64) {
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
	eachLevel(t, func(t *testing.T, _ string, stores []*postgres.Store) {
		payment := paid(t, stores[0], "P1", 3000)
		const callers = 20
		errs := make([]error, callers)
		begin := func(i int) error {
			_, err := insist(t, func(ctx context.Context) (effect.Seen, error) {
				return stores[i%2].Payments().Refunds.Begin(ctx, refunding(fmt.Sprint("R", i), payment, 1000))
			})
			return err
		}
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { errs[i] = begin(i) })
		}
		wg.Wait()
		var begun []int
		for i, err := range errs {
			switch {
			case err == nil:
				begun = append(begun, i)
			default:
				wantRefusal(t, "one too many", err, retryproof.CodeExceeds)
			}
		}
		if refunds, claims := count(t, stores[0], "refunds"), count(t, stores[0], "claims WHERE endpoint = 'refunds'"); len(begun) != 3 || refunds != 3 || claims != 3 {
			t.Fatalf("got %d begun, %d refunds and %d claims, want 3 of each", len(begun), refunds, claims)
		}
		wantRefunded(t, stores[0], payment, 3000)

		// All three end at once, in each way that gives the amount back, while others ask.
		for n, i := range begun {
			b := refunding(fmt.Sprint("R", i), payment, 1000)
			wg.Go(func() {
				_, err := insist(t, func(ctx context.Context) (bool, error) {
					refunds := stores[n%2].Payments().Refunds
					if n == 0 {
						return refunds.Release(ctx, effect.Release{Scope: b.Scope, GuardID: b.GuardID, Owner: b.Owner})
					}
					out, err := refunds.Settle(ctx, effect.Settle{ID: b.GuardID, From: []effect.State{effect.Pending}, To: effect.Failed, By: "a", Now: noon})
					return out.Moved, err
				})
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
			})
		}
		late := make([]error, callers)
		for i := range callers {
			wg.Go(func() { late[i] = begin(callers + i) })
		}
		wg.Wait()
		kept := int64(0)
		for _, err := range late {
			if err == nil {
				kept += 1000
			}
		}
		if kept > 3000 {
			t.Errorf("got %d refunded, want at most 3000", kept)
		}
		wantRefunded(t, stores[0], payment, kept)
	})
}

// One key asked for by many at once reserves its amount once.
func TestOneRefundAskedForByManyReservesOnce(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ string, stores []*postgres.Store) {
		payment := paid(t, stores[0], "P1", 1000)
		var wg sync.WaitGroup
		for i := range 16 {
			b := refunding("R1", payment, 1000)
			b.Owner = fmt.Sprint("owner", i%4)
			wg.Go(func() {
				var g *effect.Guard
				_, err := insist(t, func(ctx context.Context) (bool, error) {
					if i%2 == 0 {
						var err error
						g, err = stores[0].RefundGuards().RecordGuard(ctx, b)
						return true, err
					}
					seen, err := stores[1].Payments().Refunds.Begin(ctx, b)
					g = seen.Guard
					return true, err
				})
				if err != nil || g != nil && g.ID != b.GuardID {
					t.Errorf("got guard %+v and error %v, want the one refund", g, err)
				}
			})
		}
		wg.Wait()
		if n := count(t, stores[0], "refunds"); n != 1 {
			t.Errorf("got %d refunds, want 1", n)
		}
		wantRefunded(t, stores[0], payment, 1000)
	})
}

// Operations that gather commit together, the refused one among them.
func TestARefusedRefundDoesNotUndoItsGroup(t *testing.T) {
	t.Parallel()
	s := open(t, postgres.Config{URL: database(t), MaxConns: 4})
	small := paid(t, s, "P2", 10)
	release := s.HoldBegins()
	var wg sync.WaitGroup
	ask := func(store effect.Store, b effect.Begin, want retryproof.Code) {
		wg.Go(func() {
			if _, err := store.Begin(t.Context(), b); retryproof.CodeOf(err) != want {
				t.Errorf("got error %v, want code %q", err, want)
			}
		})
	}
	for i := range 8 {
		ask(s.Payments().Effects, paying(fmt.Sprint("G", i), 5), "")
	}
	ask(s.Payments().Refunds, refunding("R2", small, 11), retryproof.CodeExceeds)
	ask(s.Payments().Refunds, refunding("R3", small, 10), "")
	ask(s.Effects(), voiding("V1", "v"), "")
	for s.WaitingBegins() < 11 && t.Context().Err() == nil {
		runtime.Gosched()
	}
	release()
	wg.Wait()
	if n := count(t, s, "(SELECT DISTINCT xmin::text FROM payments WHERE amount = 5) x"); n != 1 {
		t.Errorf("got %d transactions, want the group's one", n)
	}
	wantRefunded(t, s, small, 10)
	if n := count(t, s, "claims WHERE client_key = 'R2'"); n != 0 {
		t.Errorf("got %d claims of the refused refund, want none", n)
	}
}

// In a program's own transaction, over each driver.
func TestARefundThatFailsWithinATransactionGivesBackAndKeepsEvidence(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *postgres.Store, begin func() transaction) {
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
			tx := begin()
			out, err := tx.within().SettleRefund(t.Context(), m)
			if err == nil {
				err = tx.end(commit)
			}
			if want := turn < 2; err != nil || out.Moved != want || out.Noted != want {
				t.Fatalf("turn %d: got %+v and error %v, want moved and noted %v", turn, out, err, want)
			}
			kept, err := s.Payments().DueRefunds.Evidence(t.Context(), b.GuardID)
			if want := min(turn, 1) * 2; err != nil || len(kept) != want {
				t.Errorf("turn %d: got %+v and error %v, want %d kept", turn, kept, err, want)
			}
		}
		wantRefunded(t, s, payment, 0)
		all, err := s.Payments().Ledger.Refunds(t.Context(), payment)
		if err != nil || len(all) != 1 || all[0].State != effect.Failed || all[0].RefundID != "re_1" || all[0].FailureCode != "closed" {
			t.Errorf("got %+v and error %v, want the failed refund", all, err)
		}
	})
}
