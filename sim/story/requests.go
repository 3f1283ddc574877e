package story

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/deadline"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/sim"
)

// sends reports whether the step is a request to the API.
func (s step) sends() bool {
	return slices.Contains([]string{doTap, doCopy, doLook, doVoid, doLast, doCancel}, s.do)
}

// message is the request of a step, and what the phone says when it sends it.
func (st *stage) message(s step) (sim.Message, string) {
	if s.key == "" {
		s.key = keyK1
	}
	id := retryproof.Of("pay", scopeOf(s.key))
	m := sim.Message{Label: s.tag, Path: "/payments", Token: buyer, Queued: s.queued}
	switch s.do {
	case doLook:
		m.Method, m.Path = http.MethodGet, "/payments/"+string(id)
		return m, "gives up on A1 and asks whether it went through: GET /payments/" + st.names.payment(string(id))
	case doVoid:
		m.Path, m.Key = "/payments/resolve", string(s.key)
		return m, "gives up on A1 and asks what became of " + keyName(s.key) + ", or has it voided: POST /payments/resolve"
	case doLast:
		m.Method, m.Path = http.MethodGet, "/devices/"+device+"/last-action"
		return m, "asks before anything else: GET " + m.Path
	case doCancel:
		m.Path = "/payments/" + string(id) + "/cancel"
		return m, "cancels the payment: POST /payments/" + st.names.payment(string(id)) + "/cancel"
	}
	m.Key, m.Body = string(s.key), []byte(s.body)
	if s.body == "" {
		m.Body = orderBody(s.amount)
	}
	what := fmt.Sprintf("sends %s: order %s, %s, key %s", s.tag, order, dollars(amountOf(m.Body)), keyName(s.key))
	if st.setting.devices {
		n, err := st.count()
		st.note(err)
		m.Header = http.Header{payments.HeaderDevice: {device}, payments.HeaderDeviceAction: {strconv.FormatInt(n, 10)}}
		what += fmt.Sprintf(", action %d of %s", n, device)
	}
	return m, what
}

// send lets the phone, or the network, send a request. A question is asked and
// answered in one moment.
func (st *stage) send(s step, n *sim.Node) {
	m, what := st.message(s)
	travel := st.p.Network
	switch s.do {
	case doCopy:
		travel = 0
		st.say("network", s.tag, "copy", "delivers a copy of "+trimCopy(s.tag)+" to "+n.Name)
	case doLook, doVoid, doLast:
		travel = 0
		st.say("phone", s.tag, "tap", what)
	default:
		st.say("phone", s.tag, "tap", what)
	}
	if s.queued > 0 {
		st.w.After(travel, func() {
			st.say(n.Name, s.tag, "wait", s.tag+" waits in the queue until "+Seconds(st.w.Now()+s.queued).String())
		})
	}
	answered := func(r sim.Reply, err error) {
		if err != nil {
			st.say("network", s.tag, "refused", n.Name+" is down: "+s.tag+" is refused")
			return
		}
		st.answered(s, n.Name, m, r)
	}
	if st.setting.sheds {
		st.w.DeliverThrough(n, travel, m, st.gate(n), answered)
		return
	}
	st.w.Deliver(n, travel, m, answered)
}

// gate refuses what waited too long since the balancer saw it.
func (st *stage) gate(n *sim.Node) func(http.Handler) http.Handler {
	arrived, err := st.w.Arrivals(n.Process())
	st.note(err)
	g, err := deadline.NewGate(deadline.GateConfig{MaxWait: st.p.ShedAfter, Arrived: arrived, Clock: n.Process().Clock()})
	if err != nil {
		st.note(err)
		return func(next http.Handler) http.Handler { return next }
	}
	return g.Handler
}

func trimCopy(tag string) string { return string(bytes.TrimSuffix([]byte(tag), []byte("′"))) }

func orderBody(amount int64) []byte {
	b, err := json.Marshal(map[string]any{"order_id": order, "amount": amount, "currency": currency, "payment_method": method, "merchant_id": merchant})
	if err != nil {
		panic(err) // strings and an integer
	}
	return b
}

func amountOf(body []byte) int64 {
	var b struct{ Amount int64 }
	_ = json.Unmarshal(body, &b) // our own body
	return b.Amount
}

// reply is what the story reads of an answer.
type reply struct {
	Code, State string
	// Action and Payment are those of a device's last action, Counter is its highest
	// number.
	Action  int64
	Counter int64
	Payment struct{ ID, State string }
}

// answered writes an answer down.
func (st *stage) answered(s step, where string, m sim.Message, r sim.Reply) {
	var body reply
	_ = json.Unmarshal(r.Body, &body) // an empty body says nothing
	a := Answer{Request: s.tag, At: Seconds(s.at), Status: r.Status, Code: body.Code, BodyState: body.State, From: st.from[s.tag], Lost: s.lost}
	if s.held {
		a.At, a.Lost = Seconds(r.At), s.lost || r.At > s.at+st.p.ClientTimeout
	}
	if s.do == doLast {
		a.BodyState = body.Payment.State
	}
	if o, err := payments.ParseOrder(m.Body, nil); err == nil {
		a.Fingerprint = st.names.fingerprint(string(o.Fingerprint()))
	}
	if r.Status/100 != 2 && retryproof.Code(body.Code) != retryproof.CodeVoid {
		a.From = ""
	}
	st.answers = append(st.answers, a)
	what := "answers " + s.tag + ": " + a.told()
	switch {
	case a.From != "":
		what += ", from the " + a.From
	case a.Status == 409 || a.Status == 422:
		what += ", nothing runs"
	}
	switch {
	case s.lost:
		what += "; the answer is lost"
	case a.Lost:
		what += "; nobody listens"
	case s.do != doCopy:
		st.heard = a.told()
	}
	st.say(where, s.tag, "answer", what)
	st.goesOn(s, a, body)
}

// goesOn is what the phone does with the answer to a question.
func (st *stage) goesOn(s step, a Answer, body reply) {
	next := s.keep
	switch {
	case s.do == doLast:
		st.learns(a, body)
		return
	case a.Status == http.StatusNotFound || a.BodyState == "VOID":
		next = s.again
	case a.Status == http.StatusOK:
		return // it went through
	}
	if next == nil {
		return
	}
	then := *next
	then.at = max(then.at, st.w.Now())
	st.w.After(then.at-st.w.Now(), func() { st.note(st.begin(then)) })
}

// moment runs something at a moment of the story.
func (st *stage) moment(t time.Duration, run func()) {
	st.until(t)
	st.w.After(t-st.w.Now(), run)
	st.until(t)
}
