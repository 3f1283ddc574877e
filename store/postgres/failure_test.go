package postgres_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/internal/testservice"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/postgres"
)

func wantRefusal(t *testing.T, what string, err error, code retryproof.Code) {
	t.Helper()
	if err == nil || retryproof.OutcomeOf(err) != retryproof.NotDone || retryproof.CodeOf(err) != code {
		t.Errorf("%s: got %v (%v, %q), want NotDone and %q", what, err, retryproof.OutcomeOf(err), retryproof.CodeOf(err), code)
	}
}

func beginning(key, owner string) effect.Begin {
	scope := retryproof.Scope{Endpoint: "orders", Caller: "u1", Key: retryproof.Key(key)}
	return effect.Begin{Scope: scope, GuardID: retryproof.Of("order", scope), Fingerprint: "1=x", Owner: owner, Now: noon, Until: noon.Add(5 * time.Second)}
}

// case 21
func TestAReadReplicaIsRefused(t *testing.T) {
	t.Parallel()
	replica := testservice.PostgresReplica(t)
	_, err := postgres.Open(t.Context(), postgres.Config{URL: replica})
	wantRefusal(t, "open", err, retryproof.CodeReadOnly)
	_, err = postgres.Migrate(t.Context(), postgres.Config{URL: replica}, postgres.Up)
	wantRefusal(t, "migrate", err, retryproof.CodeReadOnly)
}

// case 21: the address leads to a replica after a failover.
func TestAFailoverToAReplicaIsNoticed(t *testing.T) {
	t.Parallel()
	primary, replica := testservice.Postgres(t), testservice.PostgresReplica(t)
	place := database(t)
	p := newProxy(t, primary)
	s := open(t, postgres.Config{URL: p.url(place)})
	p.moveTo(t, replica)
	for name, ask := range map[string]func() error{ // order: each is asked alone
		"a read": func() error {
			_, err := s.Effects().Look(t.Context(), effect.Look{Now: noon})
			return err
		},
		"a write": func() error {
			_, err := s.Effects().Begin(t.Context(), beginning("K1", "a"))
			return err
		},
	} {
		err := ask()
		for code := retryproof.CodeOf(err); t.Context().Err() == nil && (code == retryproof.CodeUnknown || code == retryproof.CodeUnavailable); code = retryproof.CodeOf(err) {
			err = ask() // a connection that the failover cut, or the replica does not know the database yet
		}
		wantRefusal(t, name, err, retryproof.CodeReadOnly)
	}
}

// case 28
func TestAReadOnlyDatabaseIsNotDoneAndLeavesNoClaim(t *testing.T) {
	t.Parallel()
	place := database(t)
	s := open(t, postgres.Config{URL: place + "&default_transaction_read_only=on"})
	_, err := s.Effects().Begin(t.Context(), beginning("K1", "a"))
	wantRefusal(t, "begin", err, retryproof.CodeReadOnly)
	seen, err := open(t, postgres.Config{URL: place}).Effects().Begin(t.Context(), beginning("K1", "b"))
	if err != nil || seen.Claim.Owner != "b" || seen.Guard.Owner != "b" {
		t.Errorf("afterwards: got %+v and error %v, want a first request", seen, err)
	}
}

func TestErrorsSayThatNothingWasDone(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{URL: "postgres://nobody@127.0.0.1:1/none?sslmode=disable"})
	wantRefusal(t, "nobody listens", err, retryproof.CodeUnavailable)

	place := database(t)
	s := open(t, postgres.Config{URL: place, MaxConns: 1, LockTimeout: 50 * time.Millisecond})
	held, err := s.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	_, err = s.Effects().Begin(ctx, beginning("K1", "a"))
	wantRefusal(t, "no connection is free", err, retryproof.CodeUnavailable)
	cancel()
	held.Release()

	if _, err := s.Effects().Begin(t.Context(), beginning("K1", "a")); err != nil {
		t.Fatal(err)
	}
	conn := connection(t, place)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT id FROM guards ORDER BY id FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Effects().Settle(t.Context(), effect.Settle{ID: beginning("K1", "a").GuardID, From: []effect.State{effect.Pending}, To: effect.Failed, By: "a", Now: noon})
	wantRefusal(t, "a row is locked", err, retryproof.CodeConflict)

	err = s.Payments().Ledger.Post(t.Context(), []ledger.Posting{
		{Account: "secret\x00", Currency: "USD", Amount: 1, Ref: "r"}, {Account: "cash", Currency: "USD", Amount: -1, Ref: "r"}}, noon)
	wantRefusal(t, "a text that cannot be stored", err, retryproof.CodeInvalid)
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows a value: %v", err)
	}
}

func TestALostAnswerToCommitIsUnknownAndReadBackFindsIt(t *testing.T) {
	t.Parallel()
	place := database(t)
	p := newProxy(t, testservice.Postgres(t))
	s := open(t, postgres.Config{URL: p.url(place)})
	if _, err := s.Effects().Begin(t.Context(), beginning("warm", "a")); err != nil { // statements are prepared now
		t.Fatal(err)
	}
	p.dropAnswers()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	b := beginning("K1", "a")
	_, err := s.Effects().Begin(ctx, b)
	if err == nil || retryproof.OutcomeOf(err) != retryproof.Unknown || retryproof.CodeOf(err) != retryproof.CodeUnknown {
		t.Fatalf("got %v (%v), want Unknown", err, retryproof.OutcomeOf(err))
	}
	p.moveTo(t, testservice.Postgres(t))
	for {
		seen, err := s.Effects().Begin(ctx, b)
		if retryproof.OutcomeOf(err) == retryproof.Unknown || retryproof.CodeOf(err) == retryproof.CodeUnavailable {
			continue
		}
		if err != nil || seen.Claim.Owner != "a" || seen.Guard == nil || seen.Guard.Owner != "a" {
			t.Errorf("read back: got %+v and error %v, want what the first one wrote", seen, err)
		}
		return
	}
}

// proxy forwards connections to a server, until it is told otherwise.
type proxy struct {
	listener net.Listener
	target   atomic.Value // string
	deaf     atomic.Bool  // answers are dropped, then the connection
	epoch    atomic.Int64
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l}
	p.target.Store(hostOf(t, target))
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p
}

func hostOf(t *testing.T, place string) string {
	t.Helper()
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func (p *proxy) url(place string) string {
	u, _ := url.Parse(place)
	u.Host = p.listener.Addr().String()
	return u.String()
}

// moveTo cuts every connection; new ones go to another server.
func (p *proxy) moveTo(t *testing.T, target string) {
	p.target.Store(hostOf(t, target))
	p.deaf.Store(false)
	p.epoch.Add(1)
}

func (p *proxy) dropAnswers() { p.deaf.Store(true) }

func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	epoch := p.epoch.Load()
	server, err := net.Dial("tcp", p.target.Load().(string))
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		_ = server.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		n, err := server.Read(buffer)
		var timeout net.Error
		idle := errors.As(err, &timeout) && timeout.Timeout()
		if p.epoch.Load() != epoch || n > 0 && p.deaf.Load() || err != nil && !idle {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
