package sim

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp/emulator"
	pushemulator "github.com/retryproof/retryproof/push/emulator"
	queuememory "github.com/retryproof/retryproof/queue/memory"
	"github.com/retryproof/retryproof/store/memory"
)

// Options make a world.
type Options struct {
	// Seed decides everything that is left open.
	Seed uint64
	// Config is the system's configuration. Defaults to payments' defaults.
	Config payments.Config
	// Latency is how long one way to a kind of seam takes: "store", "queue",
	// "push", "psp", "net" (phone to load balancer). Defaults to 0.
	Latency map[string]time.Duration
	// Jitter is added to every way, up to it, and gives the baton away at every
	// call. Defaults to 0: calls without a latency take no time.
	Jitter time.Duration
	// Restless is how long a node rests at most while faults are on, although it knows
	// of nothing to do; ten times as long afterwards. Defaults to 1 minute.
	Restless time.Duration
	// Chaos is what goes wrong while faults are on. Defaults to nothing.
	Chaos Chaos
	// Inject are single faults at numbered calls. Defaults to none.
	Inject []Injection
	// Suppress takes decisions back, by their numbers: see Shrink. Defaults to none.
	Suppress map[uint64]bool
	// Stores are the databases. Defaults to a new store in memory.
	Stores *payments.Stores
	// Queue sets the queue in memory. Defaults to its defaults.
	Queue queuememory.Config
	// KeyMemory is how long the processor remembers a key. Defaults to 24 h.
	KeyMemory time.Duration
	// Silence is when nobody hears the processor. Defaults to never.
	Silence Silence
	// NoWebhooks keeps the processor silent. Defaults to false.
	NoWebhooks bool
	// Twins replace rules by what somebody without them would do. Defaults to none.
	Twins []Twin
	// KeepTrace keeps every event, for people. Defaults to false: only the hash.
	KeepTrace bool
	// Authenticate maps tokens to callers. Defaults to the token being the caller.
	Authenticate func(token string) (string, bool)
}

// World is everything: the processes of the system, and what lies outside.
type World struct {
	*Scheduler
	options Options
	trace   Trace
	chaos   Chaos
	// faulty says that faults are on.
	faulty bool
	calls  int
	// decisions counts the questions whether something goes wrong; hits are those
	// that were answered yes.
	decisions uint64
	hits      []uint64
	counts    Counts
	audit     *auditor

	stores payments.Stores
	queue  *queuememory.Queue
	core   *emulator.Core
	phones *pushemulator.Emulator
	// outside never dies: the processor, the push provider, the network. Nor does the
	// load balancer, whose clock may be off.
	processor, outside, balancer *Process
	nodes                        []*Node
	processes                    []*Process
	pumping                      bool
	// rows is what is in the outbox; margin is the system's.
	rows rows
	// notices are the notifications that are not sent yet.
	notices notices
	margin  time.Duration
	// losing are the numbers of replies of the processor that a story loses.
	losing map[string]int
	// served are requests to use again.
	served []*served
	// healed says that restarts come at once and clocks are right.
	healed   bool
	healedAt time.Duration
	// operated says that there is an operator.
	operated bool
}

// Node is one role of the system and its present life.
type Node struct {
	// Role is "api", "resolver", "relay", "worker" or "notifier".
	Role   string
	Name   string
	p      *Process
	System *payments.System
	// resting is its loop's task while it rests: not before notBefore, until restless
	// at the latest, and lag after something is due.
	resting                  *task
	notBefore, restless, lag time.Duration
	// loops says that its loops run by themselves.
	loops bool
}

// Process is the node's present life.
func (n *Node) Process() *Process { return n.p }

// NewWorld makes a world without nodes.
func NewWorld(o Options) (*World, error) {
	w := &World{Scheduler: NewScheduler(o.Seed), options: o, chaos: o.Chaos, losing: map[string]int{}, margin: cmp.Or(o.Config.Margin, time.Second)}
	w.trace.Keep = o.KeepTrace
	w.audit = newAuditor(w)
	w.outside = NewProcess(w.Scheduler, "outside", 0, 0)
	w.processor = NewProcess(w.Scheduler, "psp", 0, 0)
	w.balancer = NewProcess(w.Scheduler, "lb", 0, 0)
	w.skew(w.balancer)
	w.processes = append(w.processes, w.outside, w.processor, w.balancer)
	if o.Stores != nil {
		w.stores = *o.Stores
	} else {
		w.stores = memory.New().Payments()
	}
	for _, t := range o.Twins {
		if t.Stores != nil {
			w.stores = t.Stores(w.stores)
		}
	}
	var err error
	if w.queue, err = queuememory.New(w.outside.Clock(), o.Queue); err != nil {
		return nil, err
	}
	w.core, err = emulator.New(background, emulator.Config{Clock: w.processor.Clock(), KeyMemory: o.KeyMemory, Deliverer: deliverer{w}})
	if err != nil {
		return nil, err
	}
	w.phones, err = pushemulator.New(background, pushemulator.Config{Clock: w.outside.Clock()})
	return w, err
}

// random is the world's randomness as an entropy.Source.
type random struct{ w *World }

func (r random) Uint64() uint64 { return r.w.rand.Uint64() }

var silent = slog.New(slog.DiscardHandler)

// Boot starts a node, or its next life. With loops, its role's loop runs by itself.
func (w *World) Boot(role, name string, loops bool) (*Node, error) {
	i := slices.IndexFunc(w.nodes, func(n *Node) bool { return n.Name == name })
	if i < 0 {
		w.nodes = append(w.nodes, &Node{Role: role, Name: name, loops: loops})
		i = len(w.nodes) - 1
	}
	n := w.nodes[i]
	n.p, n.resting = NewProcess(w.Scheduler, name, 0, 0), nil
	w.skew(n.p)
	w.processes = append(slices.DeleteFunc(w.processes, (*Process).Dead), n.p)
	x := &seam{w, n.p}
	authenticate := w.options.Authenticate
	if authenticate == nil {
		authenticate = func(token string) (string, bool) { return token, token != "" }
	}
	deps := payments.Deps{
		Store: x.stores(w.stores), Queue: queueSeam{x, w.queue}, PSP: pspSeam{x, emulator.Direct{Core: w.core}}, Push: pushSeam{x, w.phones},
		Authenticate: authenticate, Operator: operatorOf, Clock: n.p.Clock(), Rand: random{w}, Log: silent, Metrics: &metrics{w},
	}
	var err error
	if role == "api" {
		if deps.Arrived, err = w.arrivals(n.p); err != nil {
			return nil, fmt.Errorf("sim: %s: %w", name, err)
		}
	}
	config := w.options.Config
	for _, t := range w.options.Twins {
		if t.Deps != nil {
			deps = t.Deps(w, n.p, deps)
		}
		if t.Config != nil {
			config = t.Config(config)
		}
	}
	if n.System, err = payments.New(deps, config); err != nil {
		return nil, fmt.Errorf("sim: %s: %w", name, err)
	}
	w.trace.add(w.now, name, "boot", "ok", "")
	if n.loops {
		w.startLoop(n)
	}
	return n, nil
}

// skew sets a process's clock wrong, as far as the chaos goes.
func (w *World) skew(p *Process) {
	if w.chaos.Skew > 0 && !w.healed {
		p.offset = w.upTo(2*w.chaos.Skew) - w.chaos.Skew
		p.drift = (2*w.rand.Float64() - 1) * w.chaos.Drift
	}
}

// restart boots the next life of a process's node, some time after a crash.
func (w *World) restart(p *Process) {
	i := slices.IndexFunc(w.nodes, func(n *Node) bool { return n.p == p })
	if i < 0 {
		return
	}
	n := w.nodes[i]
	delay := 100 * time.Millisecond
	if !w.healed {
		delay += w.extent(5 * time.Second)
	}
	if !n.loops && n.Role != "api" {
		return // a story boots its nodes itself
	}
	w.After(delay, func() {
		if _, err := w.Boot(n.Role, n.Name, n.loops); err != nil {
			panic(err) // the same configuration worked before
		}
	})
}

// Node returns a node by its name, nil when there is none.
func (w *World) Node(name string) *Node {
	for _, n := range w.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Close ends every task; the world is over.
func (w *World) Close() { w.Scheduler.Close(w.processes) }

// Trace returns what happened.
func (w *World) Trace() *Trace { return &w.trace }

// Counts returns what the world met.
func (w *World) Counts() Counts { return w.counts }

// metrics counts what the production code reports.
type metrics struct{ w *World }

func (m *metrics) Add(name string, _ float64, labels ...string) {
	c := &m.w.counts
	if len(labels) < 2 {
		return
	}
	switch name + " " + labels[1] {
	case "retryproof_effects_total takeover":
		c.Takeovers++
	case "retryproof_effects_total fenced":
		c.Fenced++
	case "retryproof_effects_total replay":
		c.Replays++
	case "retryproof_resolver_total settled":
		c.Resolved++
	case "retryproof_webhooks_total moves":
		c.Webhooks++
	case "retryproof_inbox_total repeat":
		c.Repeats++
	case "retryproof_effects_total too_late":
		c.TooLate++
	case "retryproof_effects_total voided":
		c.Voids++
	case "retryproof_refund_resolver_total settled":
		c.RefundsResolved++
	case "retryproof_verdicts_total SUCCEEDED", "retryproof_verdicts_total FAILED", "retryproof_verdicts_total VOID":
		c.Verdicts++
	}
}

// loseReply reports whether a story loses this reply of the processor.
func (w *World) loseReply(op string) bool {
	if w.losing[op] > 0 {
		w.losing[op]--
		return true
	}
	return false
}
