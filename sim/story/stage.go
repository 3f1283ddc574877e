package story

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/sim"
	"github.com/retryproof/retryproof/store/memory"
	"github.com/retryproof/retryproof/version"
)

// The story's people and things.
const (
	buyer    = "u1"
	merchant = "m1"
	order    = "42"
	currency = "USD"
	method   = "pm_1"
	keyK1    = "0192f0c4-5b7e-7c1a-9d3e-2f4b8a6c1e07"
	keyK2    = "0192f0c4-82a1-7f05-b1c7-6d90e3f4a852"
)

var scopeK1 = scopeOf(keyK1)

func scopeOf(k retryproof.Key) retryproof.Scope {
	return retryproof.Scope{Endpoint: "payments", Caller: buyer, Key: k}
}

// keyName is what the story calls a key.
func keyName(k retryproof.Key) string {
	if k == keyK2 {
		return "K2"
	}
	return "K1"
}

var background = context.Background()

// stage is a scenario while it is played.
type stage struct {
	p       Params
	s       scenario
	setting setting
	w       *sim.World
	script  *sim.Script
	store   *memory.Store
	names   *names
	lines   []line
	// tags say which step a process is in, by its name.
	tags    map[string]string
	tasks   map[any]string    // and which a task belongs to
	owners  map[string]string // owner token → request
	from    map[string]string // request → what answered it
	answers []Answer
	credits []Credit
	moves   map[retryproof.ID][]Move
	ids     []retryproof.ID // payments in the order of their rows
	snaps   map[string]*Snapshot
	hooks   []Webhook
	sends   []Send
	// ways are the rows of six-ways, best this design's own result.
	ways    []Way
	best    *Result
	heard   string
	claimed map[retryproof.Key]bool // keys that had a record before
	refunds []retryproof.ID         // in the order of their rows
	ends    []End
	// declined counts what the processor declined.
	declined int
	// counter numbers the actions of the device.
	counter *version.Counter
	// collected is how much of the trace has become lines.
	collected int
	trouble   []error
}

// play runs the scenario.
func (s scenario) play(p Params) (Result, error) {
	st := &stage{p: p, s: s, script: &sim.Script{}, store: memory.New(), names: &names{}, tags: map[string]string{}, tasks: map[any]string{}, owners: map[string]string{},
		from: map[string]string{}, moves: map[retryproof.ID][]Move{}, snaps: map[string]*Snapshot{}, hooks: []Webhook{}, sends: []Send{}, heard: "nothing",
		claimed: map[retryproof.Key]bool{}}
	if s.world != nil {
		st.setting = s.world(p)
	}
	if st.setting.twoKeys {
		st.names.second = true
		for _, k := range []retryproof.Key{keyK1, keyK2} {
			st.names.payment(string(retryproof.Of("pay", scopeOf(k))))
		}
	}
	if err := st.build(); err != nil {
		return Result{}, err
	}
	defer st.w.Close()
	if s.program != nil {
		s.program(st)
	} else {
		st.perform(s.steps(p))
	}
	if len(st.trouble) > 0 {
		return Result{}, st.trouble[0]
	}
	return st.result()
}

// build makes the world and boots its processes.
func (st *stage) build() error {
	p := st.p
	q := st.setting.queue
	q.DedupWindow, q.Visibility = p.QueueWindow, p.Visibility
	c := st.setting.config
	c.Deadline, c.Margin, c.AnswerTTL, c.QueueWindow, c.PSPWindow = p.Deadline, p.Margin, p.KeyWindow, p.QueueWindow, p.KeyMemory
	c.RelayLease = p.RelayLease
	stores := st.recorded()
	twins := append([]sim.Twin{{Rule: "notes", Deps: st.noting}}, st.setting.twins...)
	twins = append(twins, sim.Twin{Rule: "script", Deps: st.script.Deps})
	w, err := sim.NewWorld(sim.Options{Seed: uint64(p.Seed), Config: c, Queue: q, KeyMemory: p.KeyMemory, Stores: &stores, KeepTrace: true,
		Latency: map[string]time.Duration{"net": p.Network, "psp": p.PSPLatency}, Twins: twins})
	if err != nil {
		return err
	}
	st.w = w
	w.Calm()
	if err := st.webhooks(); err != nil {
		return err
	}
	if st.s.program != nil {
		return nil
	}
	for _, n := range []struct{ role, name string }{{"api", "api-1"}, {"api", "api-2"}, {"resolver", "resolver"}, {"relay", "relay"}, {"worker", "w1"}, {"worker", "w2"}} {
		if _, err := w.Boot(n.role, n.name, false); err != nil {
			return err
		}
	}
	api := w.Node("api-1")
	w.Go(api.Process(), 0, func() { st.note(api.System.OpenMerchant(background, merchant, currency, p.Opening)) })
	return nil
}

// webhooks lets the processor's message about a charge come late, as the story
// wants it; in W it comes twice. The second try leaves when the first was
// answered.
func (st *stage) webhooks() error {
	p := st.p
	late := p.WebhookAt - p.Network - (p.Network + p.PSPLatency)
	faults := []emulator.Fault{{Operation: emulator.OperationCharge, Do: emulator.WebhookLate, Always: true, By: max(late, time.Microsecond)},
		{Operation: emulator.OperationRefund, Do: emulator.WebhookNever, Always: true}}
	if again := p.WebhookAgainAt - p.WebhookAt - 2*p.Network; st.s.id == "W" {
		faults = append(faults, emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.WebhookTwice, By: max(again, 0)})
	}
	return st.w.Core().AddFaults(faults...)
}

// note keeps an error that would make the story meaningless.
func (st *stage) note(err error) {
	if err != nil {
		st.trouble = append(st.trouble, err)
	}
}

// perform plays the steps in the order of their times.
func (st *stage) perform(steps []step) {
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	end := time.Duration(0)
	for _, s := range steps {
		st.until(s.at)
		st.w.After(s.at-st.w.Now(), func() { st.note(st.begin(s)) })
		st.until(s.at)
		end = s.at
	}
	// What the last step began ends before the processor's next webhook.
	st.until(end + 4*st.p.PSPLatency + 4*st.p.Network + time.Second)
}

// until plays everything that is due up to a time.
func (st *stage) until(t time.Duration) {
	st.w.Run(t)
	st.collect()
}

// begin starts one step.
func (st *stage) begin(s step) error {
	switch s.do {
	case doSnap:
		st.snaps[s.tag] = st.snapshot(s.shown)
		return nil
	case doSilence:
		st.w.LoseReplies(s.tag, math.MaxInt32)
		return nil
	case doForget:
		return st.reinstall(s)
	}
	n := st.w.Node(s.who)
	sends := s.sends()
	for _, f := range st.script.Left() {
		if f.Node == s.who && !sends {
			st.script.Drop(s.who) // what an earlier step did not meet
		}
	}
	for _, f := range s.faults {
		st.script.At(f)
	}
	if sends {
		st.send(s, n)
		return nil
	}
	if n.Process().Dead() {
		if _, err := st.w.Boot(n.Role, n.Name, false); err != nil {
			return err
		}
		st.say(n.Name, s.tag, "boot", "starts again")
	}
	st.tags[n.Name] = s.tag
	limit, once := 1, n.System.WorkOnce
	switch s.do {
	case doDrain:
		limit = 20
	case doResolve:
		once = n.System.ResolveOnce
	case doReconcile:
		once = func(ctx context.Context) (int, error) { return st.reconcile(ctx, n) }
	case doRelay:
		once = func(ctx context.Context) (int, error) { return n.System.RelayOnce(ctx, 0) }
	}
	st.w.Go(n.Process(), 0, func() {
		total, said := 0, len(st.lines)
		for range limit {
			done, err := once(background)
			st.note(err)
			if total += done; done == 0 {
				break
			}
		}
		if total == 0 && len(st.lines) == said {
			st.say(n.Name, s.tag, "nothing", "finds nothing to do")
		}
	})
	return nil
}

// snapshot writes down what everybody holds now.
func (st *stage) snapshot(shown time.Duration) *Snapshot {
	out := &Snapshot{At: Seconds(shown), Ledger: "no row", Credits: len(st.credits), Balances: st.balances(), Queue: st.queue(),
		Notifications: st.notifications(), PhoneKnows: st.heard, Intent: "none", KeyRecord: st.keyRecord()}
	charges := st.charges()
	out.Charges, out.PSPRequests = len(charges), 0
	for _, c := range charges {
		out.ChargedTotal += c.Amount
		out.PSPRequests += c.Requests
	}
	stores := st.store.Payments()
	var states []string
	for _, id := range st.ids {
		p, err := stores.Ledger.Payment(background, id)
		st.note(err)
		states = append(states, string(p.State))
	}
	if len(states) > 0 {
		out.Ledger = strings.Join(states, ", ")
		if i, err := stores.Notify.Intent(background, notify.Key{EventID: st.ids[0].Sub("SUCCEEDED"), Channel: "push"}); err == nil && i != nil {
			out.Intent = string(i.State)
		}
	}
	a, err := stores.Ledger.Audit(background)
	st.note(err)
	out.OutboxRows = a.OutboxWaiting
	return out
}

// keyRecord reads K1's record as a reader would, now.
func (st *stage) keyRecord() KeyRecord {
	if st.setting.keysDown {
		return KeyRecord{State: "unreachable"}
	}
	c, err := st.store.Keys().LookKey(background, effect.Look{Scope: scopeK1, GuardID: retryproof.Of("pay", scopeK1), Now: sim.Epoch.Add(st.w.Now())})
	if err != nil || c == nil {
		return KeyRecord{State: "absent"}
	}
	if c.State == effect.ClaimVoid {
		return KeyRecord{State: string(c.State), ExpiresAt: at(c.ExpiresAt)}
	}
	k := KeyRecord{State: string(c.State), Owner: st.owners[c.Owner]}
	if c.State == effect.InProgress {
		k.Until = Seconds(c.Until.Sub(sim.Epoch))
		return k
	}
	k.ExpiresAt, k.Holds = Seconds(c.ExpiresAt.Sub(sim.Epoch)), "pointer"
	if c.Answer != nil {
		k.Holds = "final answer"
	}
	return k
}

func (st *stage) balances() map[string]int64 {
	b, err := st.store.Payments().Ledger.Balance(background, payments.MerchantAccount(merchant), currency)
	st.note(err)
	return map[string]int64{merchant: b}
}

func (st *stage) notifications() Notifications {
	t := st.w.Phones().Totals()
	return Notifications{Shown: t.Shown, Alerts: t.Alerts}
}

func (st *stage) queue() Queue {
	q := st.w.QueueStats()
	return Queue{Sends: q.Sent + q.Dropped, Stored: q.Sent, Dropped: q.Dropped, Delivered: q.Delivered, Waiting: q.Depth}
}

// charges reads the processor's own book.
func (st *stage) charges() []Charge {
	out := []Charge{}
	for _, c := range st.w.Core().Charges() {
		out = append(out, Charge{ID: st.names.charge(c), Key: st.names.show(c.Key), At: Seconds(c.At.Sub(sim.Epoch)), Amount: c.Amount, Requests: c.Requests})
	}
	return out
}

// result gathers what came out.
func (st *stage) result() (Result, error) {
	r := Result{ID: st.s.id, Title: st.s.title, Moral: st.s.moral, Charges: st.charges(), Credits: st.credits, Balances: st.balances(),
		Notifications: st.notifications(), Answers: st.answers, Queue: st.queue(), Snapshots: st.snaps, params: st.p,
		Hash: st.w.Trace().Hash(), Payments: []Payment{}, Screen: []Shown{}, Fenced: st.w.Counts().Fenced, Webhooks: st.hooks, Sends: st.sends,
		Refunds: st.refundRows(), Ends: st.ends}
	if r.Credits == nil {
		r.Credits = []Credit{}
	}
	if r.Answers == nil {
		r.Answers = []Answer{}
	}
	slices.SortStableFunc(r.Answers, func(a, b Answer) int { return cmp.Compare(a.At, b.At) })
	for _, c := range r.Charges {
		r.ChargedTotal += c.Amount
	}
	for _, id := range st.ids {
		p, err := st.store.Payments().Ledger.Payment(background, id)
		if err != nil {
			return r, err
		}
		r.Payments = append(r.Payments, Payment{ID: st.names.show(string(id)), State: string(p.State), Moves: st.moves[id]})
	}
	r.Harm = "none"
	if h := st.w.Harm(); h != nil {
		r.Harm = h.Rule
	}
	for _, n := range st.w.Phones().Screen(buyer) {
		r.Screen = append(r.Screen, Shown{ReplaceID: st.names.show(n.ReplaceID), Body: n.Body})
	}
	if st.best != nil {
		r = *st.best
		r.ID, r.Title, r.Moral, r.Ways, r.lines, r.Events, r.Snapshots = st.s.id, st.s.title, st.s.moral, st.ways, nil, []Event{}, map[string]*Snapshot{}
		r.params = st.p
		return r, nil
	}
	st.narrate(&r)
	r.IDs = st.names.list()
	return r, nil
}
