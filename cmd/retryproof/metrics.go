package main

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// promMetrics is payments.Metrics on a Prometheus registry. Counters are made when
// they are first counted; the set of names and labels is the program's own.
type promMetrics struct {
	registry *prometheus.Registry
	mu       sync.Mutex
	counters map[string]*prometheus.CounterVec
}

func newPromMetrics() *promMetrics {
	m := &promMetrics{registry: prometheus.NewRegistry(), counters: map[string]*prometheus.CounterVec{}}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Add counts n; labels are pairs of name and value.
func (m *promMetrics) Add(name string, n float64, labels ...string) {
	names, values := make([]string, 0, len(labels)/2), make([]string, 0, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	m.counter(name, names).WithLabelValues(values...).Add(n)
}

func (m *promMetrics) counter(name string, labels []string) *prometheus.CounterVec {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.counters[name]
	if !ok {
		c = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: helpOf(name)}, labels)
		m.registry.MustRegister(c)
		m.counters[name] = c
	}
	return c
}

// gauge registers a value that is read when somebody looks.
func (m *promMetrics) gauge(name string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: helpOf(name)}, read))
}

func (m *promMetrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

func helpOf(name string) string {
	help := map[string]string{
		"retryproof_effects_total":        "What requests met: first, replay, pointer, in_progress, mismatch, takeover, fenced, lost_commit, unknown, settled.",
		"retryproof_outbox_total":         "What relays did with events: sent, failed, parked, fenced.",
		"retryproof_outbox_waiting":       "Events that are stored and not yet confirmed by the queue.",
		"retryproof_outbox_parked":        "Events set aside for a person.",
		"retryproof_inbox_total":          "What workers did with messages: applied, repeat, failed.",
		"retryproof_notifications_total":  "What became of notifications: sent, skipped, failed.",
		"retryproof_resolver_total":       "What the resolver did: asked, settled, still_unknown, overtaken.",
		"retryproof_webhooks_total":       "What webhooks did: moves, late, repeats dropped, refused.",
		"retryproof_psp_conflicts_total":  "Charges that do not match their payment; a person must look.",
		"retryproof_unknown_alerts_total": "Payments that stay UNKNOWN; a person must look.",
	}
	if h, ok := help[name]; ok {
		return h
	}
	return name
}
