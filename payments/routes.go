package payments

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

// route serves one pattern for whichever system was asked.
type route func(s *System, w http.ResponseWriter, r *http.Request)

// routes are all patterns of the API.
var routes = map[string]route{
	"POST /payments":                      (*System).keyedCreate,
	"POST /webhooks/psp":                  (*System).webhook,
	"POST /payments/resolve":              (*System).resolve,
	"POST /payments/{id}/refunds":         (*System).keyedRefund,
	"POST /payments/{id}/cancel":          (*System).cancel,
	"POST /payments/{id}/refunds/resolve": (*System).resolveRefund,
	"GET /payments/{id}/refunds":          (*System).showRefunds,
	"GET /payments/{id}":                  (*System).show,
	"GET /payments/{id}/hops":             (*System).showHops,
	"GET /devices/{device}/last-action":   (*System).lastAction,
	"GET /merchants/{id}/balance":         (*System).balance,
	"GET /healthz":                        (*System).healthy,
	"GET /readyz":                         (*System).ready,

	"GET /operator/unknown":                                 (*System).listUnknown,
	"GET /operator/payments/{id}":                           (*System).showToOperator,
	"POST /operator/payments/{id}/verdict":                  (*System).decidePayment,
	"POST /operator/payments/{id}/refunds/{refund}/verdict": (*System).decideRefund,
	"POST /operator/reconciliations":                        (*System).reconcileForOperator,
	"GET /operator/parked":                                  (*System).listParked,
	"POST /operator/parked/{hop}/{id}/redrive":              (*System).redrive,
}

// nowhere answers what no other pattern takes, as a problem like every other refusal.
func nowhere(m *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if _, pattern := m.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != anything && pattern != "" {
			allow = append(allow, method)
		}
	}
	p := httpkey.ProblemOf(retryproof.Refused(retryproof.CodeNotFound, "there is no such endpoint", nil))
	if len(allow) > 0 {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		p.Status, p.Code, p.Title = http.StatusMethodNotAllowed, "method-not-allowed", "The endpoint does not take this method"
		p.Type, p.Detail = httpkey.ProblemBase+string(p.Code), "use "+strings.Join(allow, " or ")
	}
	p.Write(w)
}

// anything is the pattern of nowhere.
const anything = "/"

// mux finds routes. It is made once for all systems of a process.
var mux = sync.OnceValue(func() *http.ServeMux {
	m := http.NewServeMux()
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		m.Handle(pattern, routes[pattern])
	}
	m.Handle(anything, route(func(_ *System, w http.ResponseWriter, r *http.Request) { nowhere(m, w, r) }))
	return m
})

// asked carries the system that was asked through the mux.
type asked struct {
	http.ResponseWriter
	s *System
}

// ServeHTTP implements http.Handler, for the mux alone.
func (serve route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := w.(*asked)
	serve(a.s, a.ResponseWriter, r)
}

// serve serves the API. The two requests that every payment is made of have
// fixed paths and are not looked for.
func (s *System) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		switch r.URL.Path {
		case "/payments":
			r.Pattern = "POST /payments"
			s.keyedCreate(w, r)
			return
		case "/webhooks/psp":
			r.Pattern = "POST /webhooks/psp"
			s.webhook(w, r)
			return
		}
	}
	mux().ServeHTTP(&asked{w, s}, r)
}

func (s *System) keyedCreate(w http.ResponseWriter, r *http.Request) { s.pay.ServeHTTP(w, r) }

func (s *System) keyedRefund(w http.ResponseWriter, r *http.Request) {
	s.refunds.keyed.Handler(http.HandlerFunc(s.createRefund)).ServeHTTP(w, r)
}

func (s *System) healthy(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]string{"status": "ok"})
}
