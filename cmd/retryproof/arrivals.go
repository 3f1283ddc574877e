package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/retryproof/retryproof/deadline"
)

// proxyFlags say whose arrival stamps count.
type proxyFlags struct {
	TrustedProxies []string      `name:"trusted-proxies" help:"Addresses of the proxies whose arrival stamps count, such as 10.0.0.0/8. Without them a request arrives when it is accepted." placeholder:"CIDR"`
	StampHeader    string        `name:"stamp-header" help:"The header in which they stamp: X-Request-Start (nginx: t=$${msec}), X-Amzn-Trace-Id (AWS), or another with such a value." placeholder:"NAME"`
	MaxWait        time.Duration `name:"max-wait" help:"How long a request may have waited since its stamp before it is refused, in ms, s, m, h or d; 0 leaves it to --deadline." default:"0"`
}

// arrivals reads the stamps and counts what was seen of them; nil without proxies.
func (f proxyFlags) arrivals(margin time.Duration, metrics *promMetrics) (*deadline.Arrivals, error) {
	if len(f.TrustedProxies) == 0 && f.StampHeader == "" {
		if f.MaxWait != 0 {
			return nil, misuse{errors.New("--max-wait needs --trusted-proxies and --stamp-header: without stamps nobody knows how long a request waited")}
		}
		return nil, nil
	}
	c := deadline.Config{Margin: margin, Observe: func(o deadline.Observation) {
		metrics.Add("retryproof_arrivals_total", 1, "what", o.What)
	}}
	for _, text := range f.TrustedProxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, addrErr := netip.ParseAddr(text)
			if addrErr != nil {
				return nil, misuse{fmt.Errorf("--trusted-proxies %q is neither an address nor a network like 10.0.0.0/8", text)}
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		c.TrustedProxies = append(c.TrustedProxies, prefix)
	}
	for name := range strings.SplitSeq(f.StampHeader, ",") {
		if name = strings.TrimSpace(name); name != "" {
			c.Headers = append(c.Headers, deadline.Header{Name: name})
		}
	}
	a, err := deadline.New(c)
	if err != nil {
		return nil, misuse{inFlags(err)}
	}
	return a, nil
}

// arrived is for payments.Deps; nil leaves the moment to the API.
func arrived(a *deadline.Arrivals) func(*http.Request) time.Time {
	if a == nil {
		return nil
	}
	return a.Arrived
}

// shed puts the stamps' reader, and a gate for what waited too long, before the API.
func (f proxyFlags) shed(a *deadline.Arrivals, metrics *promMetrics, next http.Handler) (http.Handler, error) {
	if a == nil {
		return next, nil
	}
	if f.MaxWait > 0 {
		g, err := deadline.NewGate(deadline.GateConfig{MaxWait: f.MaxWait, Arrived: a.Arrived, Observe: func(o deadline.Observation) {
			metrics.Add("retryproof_arrivals_total", 1, "what", o.What)
		}})
		if err != nil {
			return nil, misuse{inFlags(err)}
		}
		next = g.Handler(next)
	}
	return a.Handler(next), nil
}
