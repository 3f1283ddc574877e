package postgres_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/postgres"
)

// stopping is a proxy to the server whose client can be stopped: it then sends, and
// reads nothing more, as a process does that was stopped or a machine that was paused.
type stopping struct {
	address string
	gate    sync.RWMutex // held while the client is stopped
}

func stoppingProxy(t *testing.T, target string) *stopping {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &stopping{address: l.Addr().String()}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", target)
			if err != nil {
				_ = client.Close()
				return
			}
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { _, _ = io.Copy(client, gated{server, &p.gate}); _ = client.Close() }()
		}
	}()
	return p
}

// gated hands out what it has read only while the gate is open.
type gated struct {
	from io.Reader
	gate *sync.RWMutex
}

func (g gated) Read(b []byte) (int, error) {
	n, err := g.from.Read(b[:min(len(b), 4096)])
	g.gate.RLock()
	defer g.gate.RUnlock()
	return n, err
}

// case 20: a relay that is stopped inside its claim, with more on its way to it than
// the network holds, stops no other.
func TestARelayThatIsStoppedInItsClaimStopsNobody(t *testing.T) {
	t.Parallel()
	place := database(t)
	s := open(t, postgres.Config{URL: place})
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	proxy := stoppingProxy(t, u.Host)
	u.Host = proxy.address
	slow := open(t, postgres.Config{URL: u.String(), MaxConns: 1})
	publish(t, s, "first")
	if got := relay(t, slow, 1); got != "first" { // the statements are prepared now
		t.Fatalf("got %q, want first", got)
	}
	run(t, place, `INSERT INTO outbox (event_id, type, group_key, body, at, attempts, leased_by, reason)
		SELECT 'e' || i, 't', 'm' || i, convert_to(repeat(md5(i::text), 16000), 'UTF8'), 0, 0, '', '' FROM generate_series(1, 40) i`)

	proxy.gate.Lock()
	t.Cleanup(proxy.gate.Unlock)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_, _ = slow.Outbox().Claim(ctx, outbox.Claim{Relay: "stopped", Now: noon, Until: noon.Add(leaseTime), Limit: 64})
	}()
	t.Cleanup(func() { cancel(); <-stopped })
	bound, cancel2 := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel2()
	for count(t, s, "outbox WHERE leased_by = 'stopped'") != 40 { // its claim is committed
		if bound.Err() != nil {
			t.Fatal("got no commit of the stopped relay's claim")
		}
	}
	rows, err := s.Outbox().Claim(bound, outbox.Claim{Relay: "other", Now: noon.Add(leaseTime + time.Microsecond), Until: noon.Add(time.Minute), Limit: 64})
	if err != nil || len(rows) != 40 {
		t.Errorf("got %d events, %v, want all after one lease", len(rows), err)
	}
}
