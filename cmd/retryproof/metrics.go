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

// metricHelp says what each metric counts; a test compares it with the names in use.
var metricHelp = map[string]string{
	"retryproof_arrivals_total":         "What became of arrival stamps: used, or why they were not.",
	"retryproof_duplicate_orders_total": "Orders that were paid twice under two keys; a person must look.",
	"retryproof_effects_total":          "What requests met: first, replay, pointer, in_progress, mismatch, void, voided, takeover, abandon, fenced, lost_commit, unknown, released, settled, too_late.",
	"retryproof_inbox_parked":           "Messages that workers have set aside for a person.",
	"retryproof_inbox_total":            "What workers did with messages: applied, repeat, failed, parked, and late: its delivery had ended before it could be deleted.",
	"retryproof_notifications_total":    "What became of notifications: sent, skipped (sent before, or left until it is due), failed, and refused: not tried any more.",
	"retryproof_outbox_oldest_seconds":  "Age of the oldest event that waits: how long a failing one may have held back its group; 0 when none waits.",
	"retryproof_outbox_parked":          "Events that relays have set aside for a person.",
	"retryproof_outbox_total":           "What relays did with events: sent, failed, parked, fenced.",
	"retryproof_outbox_waiting":         "Events that are stored and not yet confirmed by the queue.",
	"retryproof_psp_conflicts_total":    "Charges that do not match their payment; a person must look.",
	"retryproof_queue_bytes":            "Size of what the queue stores.",
	"retryproof_queue_messages":         "Messages that the queue stores: unfinished ones, and finished ones inside its dedup window.",
	"retryproof_redrives_total":         "Events and messages that a person put back.",
	"retryproof_refund_resolver_total":  "What the resolver did about refunds: asked, settled, still_unknown, overtaken, decided.",
	"retryproof_refunds_total":          "What requests for refunds met, as in retryproof_effects_total.",
	"retryproof_resolver_total":         "What the resolver did about payments: asked, settled, still_unknown, overtaken, decided.",
	"retryproof_unknown_alerts_total":   "Payments and refunds that stay UNKNOWN; a person must look.",
	"retryproof_verdicts_total":         "What persons decided, by state.",
	"retryproof_webhooks_total":         "What webhooks did: moves, late, repeats dropped, refused, unreadable.",
}

func helpOf(name string) string {
	if help, ok := metricHelp[name]; ok {
		return help
	}
	return name
}
