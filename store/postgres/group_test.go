package postgres_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/postgres"
)

func settling(key string) effect.Settle {
	return effect.Settle{ID: beginning(key, "a").GuardID, From: []effect.State{effect.Pending}, To: effect.Succeeded, By: "a", Fenced: true, Now: noon}
}

func TestALockedRowStopsNobodyElse(t *testing.T) {
	t.Parallel()
	place := database(t)
	s := open(t, postgres.Config{URL: place})
	const others = 20
	keys := []string{"victim"}
	for i := range others {
		keys = append(keys, fmt.Sprint("K", i))
	}
	for _, k := range keys {
		if _, err := s.Effects().Begin(t.Context(), beginning(k, "a")); err != nil {
			t.Fatal(err)
		}
	}
	conn := connection(t, place)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM guards WHERE id = $1 FOR UPDATE", string(settling("victim").ID)); err != nil {
		t.Fatal(err)
	}
	victim := make(chan error, 1)
	go func() {
		_, err := s.Effects().Settle(t.Context(), settling("victim"))
		victim <- err
	}()
	waitForLock(t, s, "guards")
	var wg sync.WaitGroup
	for _, k := range keys[1:] {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if out, err := s.Effects().Settle(ctx, settling(k)); err != nil || !out.Moved {
				t.Errorf("got %+v and error %v while another row is locked, want it moved", out, err)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-victim:
		t.Errorf("got error %v while its row is locked, want it to wait", err)
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-victim; err != nil {
		t.Errorf("afterwards: got error %v, want none", err)
	}
}

// gathered lets the settlements come one after the other, and then go together.
func gathered(t *testing.T, s *postgres.Store, settlements []effect.Settle) []error {
	t.Helper()
	release := s.HoldSettles()
	errs := make([]error, len(settlements))
	var wg sync.WaitGroup
	for i, set := range settlements {
		wg.Go(func() { _, errs[i] = s.Effects().Settle(t.Context(), set) })
		for s.WaitingSettles() <= i && t.Context().Err() == nil {
			runtime.Gosched()
		}
	}
	release()
	wg.Wait()
	return errs
}

// paidTo settles in favour of a merchant, with an event.
func paidTo(key, merchant, ref string) effect.Settle {
	set := settling(key)
	set.Postings = []ledger.Posting{{Account: "merchant:" + merchant, Currency: "USD", Amount: 5, Ref: ref}, {Account: "cash", Currency: "USD", Amount: -5, Ref: ref}}
	set.Events = []retryproof.Event{newEvent(key)}
	return set
}

// Groups of two processes must not wait for each other.
func TestAGroupLocksBalancesInOneOrder(t *testing.T) {
	t.Parallel()
	s := open(t, postgres.Config{URL: database(t)})
	var settlements []effect.Settle
	for _, m := range []string{"m3", "m1", "m4", "m2"} {
		if _, err := s.Effects().Begin(t.Context(), beginning("to-"+m, "a")); err != nil {
			t.Fatal(err)
		}
		settlements = append(settlements, paidTo("to-"+m, m, "to-"+m))
	}
	for i, err := range gathered(t, s, settlements) {
		if err != nil {
			t.Errorf("settlement %d: got error %v", i, err)
		}
	}
	if got, want := relay(t, s, 10), "to-m1 to-m2 to-m3 to-m4"; got != want {
		t.Errorf("got the order %s, want that of the accounts, %s", got, want)
	}
	if n := count(t, s, "(SELECT DISTINCT xmin::text FROM guards) x"); n != 1 {
		t.Errorf("got %d transactions, want the group's one", n)
	}
}

func TestOneThatFailsSpoilsNobodyOfItsGroup(t *testing.T) {
	t.Parallel()
	s := open(t, postgres.Config{URL: database(t)})
	for _, k := range []string{"first", "good1", "bad", "good2"} {
		if _, err := s.Effects().Begin(t.Context(), beginning(k, "a")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Effects().Settle(t.Context(), paidTo("first", "m0", "taken")); err != nil {
		t.Fatal(err)
	}
	errs := gathered(t, s, []effect.Settle{paidTo("good1", "m1", "r1"), paidTo("bad", "m2", "taken"), paidTo("good2", "m3", "r3")})
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("the others: got errors %v and %v, want none", errs[0], errs[2])
	}
	wantRefusal(t, "another entry of a ref", errs[1], retryproof.CodeInvalid)
	if n := count(t, s, "outbox WHERE event_id IN ('first', 'good1', 'good2')"); n != 3 || count(t, s, "outbox") != 3 {
		t.Errorf("got %d of their events, want 3 and no other", n)
	}
}

func TestOnlyTheServersErrorMeansRolledBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		severity, code string
		want           retryproof.Outcome
	}{
		{"ERROR", "23505", retryproof.NotDone},
		{"ERROR", "40001", retryproof.NotDone},
		{"ERROR", "40003", retryproof.Unknown},
		{"ERROR", "08P01", retryproof.Unknown},
		{"ERROR", "57P01", retryproof.Unknown},
		{"FATAL", "25P03", retryproof.Unknown},
		{"FATAL", "XX000", retryproof.Unknown},
		{"FATAL", "53200", retryproof.Unknown},
		{"PANIC", "XX000", retryproof.Unknown},
	} {
		for _, localized := range []bool{false, true} {
			e := &pgconn.PgError{Severity: c.severity, SeverityUnlocalized: c.severity, Code: c.code}
			if localized {
				e.Severity = strings.ToLower(c.severity) + "eur"
			} else {
				e.SeverityUnlocalized = ""
			}
			if got := retryproof.OutcomeOf(postgres.Unsure(e)); got != c.want {
				t.Errorf("%s %s: got %v, want %v", c.severity, c.code, got, c.want)
			}
		}
	}
}
