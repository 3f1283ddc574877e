package story

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof/sim"
)

// line is one line of the timeline.
type line struct {
	at    time.Duration
	place int // in the trace, to order lines of one moment
	n     int // number in the story; 0 before numbering
	where string
	tag   string
	op    string
	what  string
}

// lanes are the columns of the timeline, from the tap to the screen.
var lanes = []string{"phone", "network", "api-1", "api-2", "keys", "ledger", "PSP", "resolver", "webhook", "relay", "queue", "w1", "w2", "screen", "post", "mailbox", "saga log", "airline", "twin"}

// say notes a line now.
func (st *stage) say(where, tag, op, what string) { st.sayAt(st.w.Trace().Len(), where, tag, op, what) }

func (st *stage) sayAt(place int, where, tag, op, what string) {
	st.lines = append(st.lines, line{at: st.w.Now(), place: 2*place + 1, where: where, tag: tag, op: op, what: what})
}

// narrate orders the lines, adds what only the trace knows, and numbers them.
func (st *stage) narrate(r *Result) {
	st.collect()
	slices.SortStableFunc(st.lines, func(a, b line) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.place, b.place)) })
	if len(st.s.numbers) > 0 {
		st.number()
	} else {
		for i := range st.lines {
			st.lines[i].n = i + 1
		}
	}
	r.lines = st.lines
	r.Events = st.events()
	for _, lane := range lanes {
		if slices.ContainsFunc(st.lines, func(l line) bool { return l.where == lane }) {
			r.lanes = append(r.lanes, lane)
		}
	}
}

// collect turns what happened since the last time into lines, while it is known
// which step every process is in.
func (st *stage) collect() {
	events := st.w.Trace().Events
	for _, e := range events[st.collected:] {
		if l, ok := st.fromTrace(e); ok {
			st.lines = append(st.lines, l)
		}
	}
	st.collected = len(events)
}

// fromTrace makes a line of a seam event, when the recorder cannot know it.
func (st *stage) fromTrace(e sim.Event) (line, bool) {
	l := line{at: e.At, place: 2 * e.N, where: e.Where, tag: st.tagOf(e.Where)}
	switch {
	case e.What == "boot" && e.At > 0 && strings.HasPrefix(e.Where, "api"):
		l.op, l.what = "boot", "starts again"
	case e.How == "crash":
		l.op, l.what = "crash", "dies"
	case e.What == "pause" && st.setting.twoKeys:
		return line{}, false // A1 is handed over
	case e.What == "pause":
		l.op, l.what = "pause", "stands still for "+e.How
	case e.Where == "psp" && e.What == "psp charge" && e.How == "ok":
		l.where = "PSP"
		l.op, l.what = st.charged(e.At)
	case e.Where == "psp" && e.What == "psp refund" && e.How == "ok":
		l.where = "PSP"
		l.op, l.what = st.refunded(e.At)
	case e.Where == "psp" && e.How == "answer lost":
		l.where, l.op, l.at, l.what = "network", "lost", e.At+st.p.PSPLatency, "the PSP's reply, due now, is lost"
	case e.How == "gave up" && e.What == "psp find refunds":
		l.op, l.what = "silence", "a search for the refund by our reference has no answer either"
	case e.How == "gave up" && e.What == "psp refund":
		l.op, l.what = "silence", "the PSP does not answer in time"
	case e.What == "psp charge" && e.How == "gave up":
		l.op, l.what = "deadline", "the deadline comes before the PSP's reply"
	case e.What == "http webhook" && e.How == "arrives":
		l.where, l.tag, l.op, l.what = "webhook", "webhook", "arrive", "evt_1 arrives at "+e.Where
	default:
		return line{}, false
	}
	return l, true
}

// charged says what the processor did at a moment.
func (st *stage) charged(at time.Duration) (op, what string) {
	for _, c := range st.charges() {
		if c.At == Seconds(at) {
			if c.Key == "" {
				return "charge", "charges " + c.ID + ", " + amount(c.Amount) + ", without a key"
			}
			return "charge", "charges " + c.ID + ", " + amount(c.Amount) + ", key " + c.Key
		}
	}
	if len(st.charges()) == 0 {
		st.declined++
		if st.declined == 1 {
			return "decline", "declines the card"
		}
		return "decline", "knows the key: declines again, charges nothing"
	}
	return "replay", "knows the key: replays its answer, charges nothing"
}

// number gives lines the numbers of the story's events. A line that no rule
// selects belongs to the event before it.
func (st *stage) number() {
	current := 1
	for i, l := range st.lines {
		for _, rule := range st.s.numbers {
			if (rule.tag == "" || rule.tag == l.tag) && (rule.ops == nil || slices.Contains(rule.ops, l.op)) {
				current = rule.n
				break
			}
		}
		st.lines[i].n = current
	}
}

// events joins the lines of one number.
func (st *stage) events() []Event {
	out := []Event{}
	for _, l := range st.lines {
		i := slices.IndexFunc(out, func(e Event) bool { return e.N == l.n })
		if i < 0 {
			e := Event{N: l.n, At: Seconds(l.at), Where: l.where, What: l.text(l.where)}
			for _, rule := range st.s.numbers {
				if rule.n == l.n && rule.where != "" {
					e.Where, e.What = rule.where, l.text(rule.where)
				}
			}
			out = append(out, e)
			continue
		}
		out[i].What += "; " + l.text(out[i].Where)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.N, b.N) })
	return out
}

// text is the line, with its place when that is not the event's.
func (l line) text(where string) string {
	if l.where == where || strings.HasPrefix(l.what, l.where) {
		return l.what
	}
	return l.where + ": " + l.what
}
