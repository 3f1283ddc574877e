package sim

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/retryproof/retryproof/deadline"
)

// The load balancer stands in front of the API: it says when a request arrived, by its
// own clock, and may let it wait. Its stamps can be wrong, or be joined by somebody
// else's.

// balancerAddress is where its connections come from; nodes trust its network.
const balancerAddress = "10.0.0.1:443"

var trustedNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

// arrivals is how a node reads stamps.
func (w *World) arrivals(p *Process) (func(*http.Request) time.Time, error) {
	a, err := deadline.New(deadline.Config{
		TrustedProxies: trustedNetworks, Headers: []deadline.Header{{Name: deadline.HeaderRequestStart}}, Clock: p.Clock(),
		Observe: func(o deadline.Observation) {
			switch o.What {
			case deadline.SawMissing, deadline.SawUntrusted, deadline.SawFuture, deadline.SawJunk:
				w.counts.StampsIgnored++
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return a.Arrived, nil
}

func stampOf(at time.Time) string {
	text := strconv.AppendInt(append(make([]byte, 0, 32), "t="...), at.UnixMicro(), 10)
	point := len(text) - 6
	return string(text[:point]) + "." + string(text[point:])
}

// stamp sets what the balancer adds to a message that it hands on.
func (w *World) stamp(m *Message) {
	now := w.balancer.clockNow()
	m.stamp[0] = stampOf(now)
	m.remote, m.stamps = balancerAddress, m.stamp[:]
	if w.chance(w.chaos.Stamp) {
		w.stampOddly(m, now)
	}
}

func (w *World) stampOddly(m *Message, now time.Time) {
	by := w.extent(20 * time.Second)
	kinds := []func(){
		func() { m.stamps = []string{"t=yesterday"} },
		func() { m.stamps = []string{stampOf(now.Add(time.Hour + by))} },
		func() { m.stamps = nil },
		func() { m.remote = "203.0.113.9:1024" },
		// A client's own stamp, beside the balancer's.
		func() { m.stamps = []string{stampOf(now.Add(-by)) + ", " + m.stamps[0]} },
		func() { m.stamps = []string{stampOf(now.Add(by)), m.stamps[0]} },
	}
	kinds[w.pick(len(kinds))]()
	w.trace.add(w.now, "lb", "stamp", "odd", m.Label)
}

// queued is how long a request waits behind the balancer.
func (w *World) queued(label string) time.Duration {
	if !w.chance(w.chaos.Queue) {
		return 0
	}
	w.counts.Queued++
	wait := w.extent(w.chaos.MaxQueue)
	w.trace.add(w.now, "lb", "queue", wait.String(), label)
	return wait
}
