package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/postgres"
)

// relayEnv makes this program a relay instead of running tests: it names the database.
const relayEnv = "RETRYPROOF_TEST_RELAY"

const leaseTime = 15 * time.Second

// runRelay leases ten events, takes its turn for the next ones, says so, and holds both
// until it is killed.
func runRelay(place string) int {
	err := holdTurn(context.Background(), place)
	fmt.Println("holding", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 1
}

func holdTurn(ctx context.Context, place string) error {
	s, err := postgres.Open(ctx, postgres.Config{URL: place, MaxConns: 2})
	if err != nil {
		return err
	}
	if _, err = s.Outbox().Claim(ctx, outbox.Claim{Relay: "killed", Now: noon, Until: noon.Add(leaseTime), Limit: 10}); err != nil {
		return err
	}
	tx, err := s.Pool().Begin(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "SELECT id FROM outbox_turn ORDER BY id FOR UPDATE")
	return err
}

// case 20: the relay that has its turn and a lease is killed, behind a transaction
// pooler. The other sends everything within one lease, and no lock stays behind.
func TestKill9OfTheActiveRelayStopsNobody(t *testing.T) {
	t.Parallel()
	place := pooled(t)
	s := open(t, postgres.Config{URL: place, MaxConns: 4})
	var ids []string
	for i := range 30 {
		ids = append(ids, fmt.Sprintf("e%02d", i))
	}
	publish(t, s, ids...)
	killed := exec.CommandContext(t.Context(), os.Args[0])
	killed.Env = append(os.Environ(), relayEnv+"="+place)
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := killed.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err := errors.Join(err, killed.Process.Kill()); err != nil || line != "holding <nil>\n" {
		t.Fatalf("got %q and error %v, want a relay that holds its turn", line, err)
	}
	_ = killed.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		after time.Duration
		want  []string
	}{{0, nil}, {leaseTime + time.Microsecond, ids}} { // the group of the leased ones waits for the lease
		rows, err := s.Outbox().Claim(ctx, outbox.Claim{Relay: "other", Now: noon.Add(c.after), Until: noon.Add(c.after + leaseTime), Limit: 100})
		var got []string
		for _, r := range rows {
			got = append(got, r.ID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("after %v: got %v and error %v, want %v", c.after, got, err, c.want)
		}
	}
}

// case 20: 120,000 merchants, and none blocks another: the lock of a relay's turn ends
// with its claim, and nothing is locked by a number that two names could share.
func TestManyGroupsNeverBlockEachOther(t *testing.T) {
	t.Parallel()
	const groups, batch = 120_000, 20_000
	place := pooled(t)
	s := open(t, postgres.Config{URL: place, MaxConns: 4})
	run(t, place, `INSERT INTO outbox (event_id, type, group_key, body, at, attempts, leased_by, reason)
		SELECT 'e' || i, 't', 'merchant-' || i, '', 0, 0, '', '' FROM generate_series(1, $1::int) i`, groups)
	run(t, place, "ANALYZE outbox")
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for _, name := range []string{"r1", "r2"} {
		wg.Go(func() {
			for {
				rows, err := s.Outbox().Claim(t.Context(), outbox.Claim{Relay: name, Now: noon, Until: noon.Add(leaseTime), Limit: batch})
				if err != nil || len(rows) == 0 {
					if err != nil {
						t.Errorf("%s: got error %v, want none", name, err)
					}
					return
				}
				mu.Lock()
				for _, r := range rows {
					if seen[r.ID] {
						t.Errorf("got %s twice", r.ID)
					}
					seen[r.ID] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != groups {
		t.Errorf("got %d events, want %d", len(seen), groups)
	}
	if n := count(t, s, "pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); n != 0 {
		t.Errorf("got %d advisory locks, want none", n)
	}
	run(t, place, "TRUNCATE outbox") // for the next test of this database
}

// The row that relays take turns at is put back when a restore has left it out.
func TestRelaysTakeTurnsAfterTheirRowWasLost(t *testing.T) {
	t.Parallel()
	place := database(t)
	s := open(t, postgres.Config{URL: place})
	publish(t, s, "e1", "e2")
	run(t, place, "TRUNCATE outbox_turn")
	if got := relay(t, s, 1); got != "e1" {
		t.Errorf("got %q, want e1", got)
	}
	conn := connection(t, place)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT id FROM outbox_turn ORDER BY id FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	waited := make(chan string, 1)
	go func() { waited <- relay(t, s, 1) }()
	waitForLock(t, s, "outbox_turn")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-waited; got != "e2" {
		t.Errorf("got %q, want e2", got)
	}
}
