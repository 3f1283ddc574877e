package sim

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/retryproof/retryproof/deadline"
)

// What stories need beside the system: other programs at the seams, and something
// that stands between the balancer and the system.

// Through runs one call of a process through its seam: it is an event of the trace,
// and the process may die at it. kind is "store" or another kind of Options.Latency.
// do must not wait.
func Through[T any](ctx context.Context, w *World, p *Process, kind, op, about string, do func() (T, error)) (T, error) {
	return call(&seam{w, p}, ctx, kind, op, about, do)
}

// Arrivals reads when the balancer saw a request, by a process's clock.
func (w *World) Arrivals(p *Process) (func(*http.Request) time.Time, error) {
	a, err := deadline.New(deadline.Config{TrustedProxies: trustedNetworks, Headers: []deadline.Header{{Name: deadline.HeaderRequestStart}}, Clock: p.Clock()})
	if err != nil {
		return nil, err
	}
	return a.Arrived, nil
}

// DeliverThrough is Deliver to a node in which something stands in front of the
// system's handler: a gate, a gateway.
func (w *World) DeliverThrough(n *Node, after time.Duration, m Message, front func(http.Handler) http.Handler, answered func(Reply, error)) {
	w.After(after, func() {
		r, err := staged(m, stampOf(w.balancer.clockNow()))
		if err != nil {
			answered(Reply{}, err)
			return
		}
		w.After(m.Queued, func() {
			if n.p.dead {
				answered(Reply{}, errConnection)
				return
			}
			p, system := n.p, n.System
			w.Go(p, 0, func() {
				p.resumeAfterPause()
				began := w.now
				w.trace.add(w.now, p.Name, "http "+m.Label, "arrives", "")
				out := &stagedAnswer{header: http.Header{}, status: http.StatusOK}
				front(system.Handler()).ServeHTTP(out, r)
				w.trace.add(w.now, p.Name, "http "+m.Label, statusText(out.status), "")
				answered(Reply{Status: out.status, Header: out.header, Body: out.body, At: w.now, Began: began}, nil)
			})
		})
	})
}

// staged is the request as the balancer hands it on.
func staged(m Message, stamp string) (*http.Request, error) {
	method := m.Method
	if method == "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(background, method, m.Path, bytes.NewReader(m.Body))
	if err != nil {
		return nil, err
	}
	if m.Header != nil {
		r.Header = m.Header.Clone()
	}
	r.RemoteAddr = balancerAddress
	r.Header.Set(deadline.HeaderRequestStart, stamp)
	r.Header.Set("Content-Type", "application/json")
	if m.Token != "" {
		r.Header.Set("Authorization", "Bearer "+m.Token)
	}
	if m.Key != "" {
		r.Header.Set("Idempotency-Key", m.Key)
	}
	return r, nil
}

// stagedAnswer is the server's end of such an exchange.
type stagedAnswer struct {
	header http.Header
	status int
	body   []byte
}

func (a *stagedAnswer) Header() http.Header { return a.header }

func (a *stagedAnswer) WriteHeader(status int) { a.status = status }

func (a *stagedAnswer) Write(b []byte) (int, error) {
	a.body = append(a.body, b...)
	return len(b), nil
}
