package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/web"
)

// mount joins the API, the phone page and, with the demo buyers, what lies outside.
func (c *serveCommand) mount(system *payments.System, o *outside, metrics *promMetrics, tokens tokenList) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/payments", system.Handler())
	mux.Handle("/payments/", system.Handler())
	mux.Handle("/merchants/", system.Handler())
	mux.Handle("/webhooks/", system.Handler())
	mux.Handle("/operator/", system.Handler())
	mux.Handle("/devices/", system.Handler())
	mux.Handle("/healthz", system.Handler())
	mux.Handle("/readyz", system.Handler())
	mux.Handle("GET /metrics", metrics.handler())
	if tokens.demo { // loopback only, checked at start
		mux.Handle("/", web.Handler(web.Config{}))
		mux.HandleFunc("GET /story/branches", listStory)
		mux.HandleFunc("GET /story/run", newStoryView().run)
		if o.phones != nil {
			mux.Handle("GET /phone/screen", tokens.ownScreen(o.phones.ScreenHandler()))
			mux.Handle("/outside/push/", http.StripPrefix("/outside/push", o.phones.Handler()))
		}
		if o.emulated {
			mux.Handle("GET /phone/faults", o.serveFaults(c.Deadline))
			mux.Handle("POST /phone/faults", o.serveFaults(c.Deadline))
			mux.Handle("/outside/psp/", http.StripPrefix("/outside/psp", o.pspControl))
		}
	}
	if tokens.demo {
		return onlyThisMachine(mux)
	}
	return mux
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
			http.Error(w, "the demo answers to this machine's own pages only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign reports that a browser says that another site's page sent the request.
func foreign(r *http.Request) bool {
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

// watchOutbox shows what waits in the outbox.
func watchOutbox(m *promMetrics, store outbox.Store) {
	read := func(pick func(outbox.Stats) int64) func() float64 {
		return func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			stats, err := store.Stats(ctx)
			if err != nil {
				return -1
			}
			return float64(pick(stats))
		}
	}
	m.gauge("retryproof_outbox_waiting", read(func(s outbox.Stats) int64 { return s.Waiting }))
	m.gauge("retryproof_outbox_parked", read(func(s outbox.Stats) int64 { return s.Parked }))
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
