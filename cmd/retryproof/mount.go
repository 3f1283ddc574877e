package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/web"
)

// mount joins the API, the phone page and, with the demo buyers, what lies outside.
func (c *serveCommand) mount(system *payments.System, o *outside, metrics *promMetrics, tokens tokenList) http.Handler {
	mux, rest := http.NewServeMux(), http.NewServeMux()
	for _, pattern := range []string{"/payments", "/payments/", "/merchants/", "/webhooks/", "/operator/", "/devices/", "/healthz", "/readyz"} {
		mux.Handle(pattern, system.Handler())
	}
	var pages http.Handler
	if tokens.demo {
		pages = web.Handler(web.Config{})
	}
	mux.Handle("/", inProblems(either(rest, pages)))
	rest.Handle("GET /metrics", metrics.handler())
	if o.core != nil && o.named && !tokens.demo { // the demo has it all, below
		rest.Handle("/v1/", o.pspAPI)
		rest.Handle("/outside/psp/v1/", http.StripPrefix("/outside/psp", o.pspAPI))
	}
	if tokens.demo { // loopback only, checked at start
		c.mountDemo(rest, o, tokens)
		return onlyThisMachine(onlyCleanPaths(mux))
	}
	return onlyCleanPaths(mux)
}

// mountDemo adds the demo's switches and what lies outside. Stripe's own
// clients take an address without a path, so the processor is at the root too.
func (c *serveCommand) mountDemo(mux *http.ServeMux, o *outside, tokens tokenList) {
	mux.HandleFunc("GET /story/branches", listStory)
	mux.HandleFunc("GET /story/run", newStoryView().run)
	if o.phones != nil {
		mux.Handle("GET /phone/screen", tokens.ownScreen(o.screens()))
		mux.Handle("/outside/push/", http.StripPrefix("/outside/push", o.pushAPI()))
	}
	if o.core != nil {
		mux.Handle("GET /phone/faults", o.serveFaults(c.Deadline))
		mux.Handle("POST /phone/faults", o.serveFaults(c.Deadline))
		mux.Handle("/outside/psp/", http.StripPrefix("/outside/psp", o.pspControl))
		mux.Handle("/v1/", o.pspAPI)
	}
}

// onlyThisMachine refuses requests that a page from elsewhere made this machine's
// browser send: the demo's tokens are public and its faults can be set.
func onlyThisMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !loopback(host) || foreign(r) {
			refuse(w, retryproof.CodeForbidden, "the demo answers to this machine's own pages only")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign reports that a browser says that another site's page sent the request. To
// follow a link that is there is no harm.
func foreign(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		return !reads || r.Header.Get("Sec-Fetch-Mode") != "navigate"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}

// ownScreen lets a caller see their own phone, the one that the query names, and
// nobody else's.
func (l tokenList) ownScreen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		caller, known := l.authenticate(strings.TrimSpace(token))
		switch to := r.URL.Query().Get("to"); {
		case !known || !strings.EqualFold(scheme, "Bearer"):
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, retryproof.CodeUnauthorized, "a valid bearer token is required")
		case to != caller && to != "": // the handler explains an empty one
			refuse(w, retryproof.CodeForbidden, "this is somebody else's phone")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func refuse(w http.ResponseWriter, code retryproof.Code, why string) {
	httpkey.ProblemOf(retryproof.Refused(code, why, nil)).Write(w)
}

// watchOutbox shows what waits in the outbox, and for how long.
func watchOutbox(m *promMetrics, store outbox.Store, times clock.Clock) {
	read := func(pick func(outbox.Stats) float64) func() float64 {
		return func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			stats, err := store.Stats(ctx)
			if err != nil {
				return -1
			}
			return pick(stats)
		}
	}
	m.gauge("retryproof_outbox_waiting", read(func(s outbox.Stats) float64 { return float64(s.Waiting) }))
	m.gauge("retryproof_outbox_parked", read(func(s outbox.Stats) float64 { return float64(s.Parked) }))
	m.gauge("retryproof_outbox_oldest_seconds", read(func(s outbox.Stats) float64 {
		if s.OldestAt.IsZero() {
			return 0
		}
		return max(0, times.Now().Sub(s.OldestAt).Seconds())
	}))
}

// watchParked shows how many messages the workers have set aside.
func watchParked(m *promMetrics, store inbox.ParkedStore) {
	m.gauge("retryproof_inbox_parked", func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		n, err := store.CountParked(ctx, "")
		if err != nil {
			return -1
		}
		return float64(n)
	})
}
