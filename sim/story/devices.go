package story

import (
	"fmt"
	"net/http"
	"time"

	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/sim"
	"github.com/retryproof/retryproof/version"
)

// The names of what devices act on.
const (
	device = "D1"
	post   = "post 7"
)

// numbers makes the device's counter, in a journal that is fresh; before is the last
// number that was taken.
func (st *stage) numbers(stream string, before int64) *version.Counter {
	c, err := version.NewCounter(&version.MemoryJournal{}, version.Line{Stream: stream, Caller: buyer, Device: device})
	if err != nil {
		panic(err) // fixed names
	}
	st.note(c.Restore(background, before))
	return c
}

// count takes the number of the device's next action.
func (st *stage) count() (int64, error) {
	if st.counter == nil {
		st.counter = st.numbers("payments", st.p.FirstNumber-1)
	}
	return st.counter.Next(background)
}

// reinstall forgets everything that the app kept.
func (st *stage) reinstall(s step) error {
	st.counter, st.heard = st.numbers("payments", 0), "nothing"
	st.say("phone", s.tag, "forget", "the app is installed again: its journal, the key K1 and its counter are gone")
	return nil
}

// learns is what the app does with the answer about its last action.
func (st *stage) learns(a Answer, body reply) {
	if a.Status != http.StatusOK {
		return
	}
	action := fmt.Sprintf("%d: %s", body.Action, st.names.show(body.Payment.ID))
	st.ends = append(st.ends, End{"the device's last action", action})
	if st.counter == nil {
		return // a phone that never counted
	}
	st.note(st.counter.Restore(background, body.Counter))
	n, err := st.count()
	st.note(err)
	st.ends = append(st.ends, End{"the device's next number", fmt.Sprint(n)})
	st.say("phone", a.Request, "learn", fmt.Sprintf("knows again: action %s, %s; it counts on with %d and does not let the buyer pay twice", action, a.BodyState, n))
}

// lastWriter is what somebody without versions keeps: whatever comes last.
type lastWriter map[string]string

// likes plays branch V: the same three messages meet a store with versions and one
// without.
func likes(st *stage) {
	p, d := st.w.Enter("api-1")
	twin, counter := lastWriter{}, st.numbers("likes", st.p.FirstNumber-1)
	take := func() int64 {
		n, err := counter.Next(background)
		st.note(err)
		return n
	}
	var like, unlike int64
	st.moment(0, func() {
		like = take()
		st.react(p, d, twin, "LIKE", "LIKE", like, "liked", true)
	})
	again := func() { st.react(p, d, twin, "LIKE again", "LIKE", like, "liked", false) }
	away := func() {
		unlike = take()
		st.react(p, d, twin, "UNLIKE", "UNLIKE", unlike, "unliked", false)
	}
	if st.p.UnlikeAt < st.p.ClientTimeout {
		st.moment(st.p.UnlikeAt, away)
		st.moment(st.p.ClientTimeout, again)
	} else {
		st.moment(st.p.ClientTimeout, again)
		st.moment(st.p.UnlikeAt, away)
	}
	st.until(st.w.Now() + 2*st.p.Network + time.Second)
	m, err := st.store.Versions().Look(background, version.Line{Stream: "likes", Caller: buyer, Device: device}, post)
	st.note(err)
	if m != nil {
		st.ends = append(st.ends, End{post + ", with versions", string(m.Value)})
	}
	st.ends = append(st.ends, End{post + ", without", twin[post]})
}

// react sends one action to the server, which applies it with and without its version.
func (st *stage) react(p *sim.Process, d payments.Deps, twin lastWriter, tag, what string, n int64, value string, lost bool) {
	sent := st.w.Now()
	st.say("phone", tag, "tap", fmt.Sprintf("sends %s(%d) about %s", what, n, post))
	st.w.Go(p, st.p.Network, func() {
		w := version.Write{Line: version.Line{Stream: "likes", Caller: buyer, Device: device}, Subject: post, Version: n,
			Action: fmt.Sprintf("%s-%d", device, n), Value: []byte(value), Now: d.Clock.Now()}
		r, err := sim.Through(background, st.w, p, "store", "version", tag, func() (version.Result, error) { return st.store.Versions().Apply(background, w) })
		st.note(err)
		twin[post] = value
		st.say("api-1", tag, "apply", fmt.Sprintf("applies %s(%d)", what, n))
		st.say("post", tag, "version", fmt.Sprintf("with versions: %s, stands at %d, %s", r.Verdict, r.Mark.Version, r.Mark.Value))
		st.say("twin", tag, "write", "without: written, "+value)
		a := Answer{Request: tag, At: Seconds(sent), Status: http.StatusOK, Code: r.Verdict.String(), BodyState: string(r.Mark.Value), Lost: lost}
		st.answers = append(st.answers, a)
		text := "answers " + tag + ": " + a.told()
		if lost {
			text += "; the answer is lost"
		}
		st.say("api-1", tag, "answer", text)
	})
}

func deviceBranches() []scenario {
	return []scenario{{
		group: "Side traces", id: "V", title: "A like that is resent last",
		moral: "Each copy alone is harmless; the old one comes last. The device's counter tells the server which is newer.",
		needs: func(p Params) []need {
			return []need{
				{p.UnlikeAt != p.ClientTimeout && p.UnlikeAt > 0, "0 < unlike_at ≠ client_timeout"},
				{p.ClientTimeout > 0, "client_timeout > 0"},
			}
		},
		program: likes, expect: expectLikes,
	}, {
		group: "Side traces", id: "reinstall", title: "The app loses its journal",
		moral: "The key is gone with the journal. The server keeps each device's last accepted action, and the app asks for it before it lets the buyer act.",
		needs: func(p Params) []need {
			return []need{
				{p.ReinstallAt > p.Network, "network < reinstall_at: A1 has arrived"},
				{2*p.PSPLatency < p.Deadline, "2·psp_latency < deadline"},
				{2*p.Network+2*p.PSPLatency < p.WebhookAt, "2·network + 2·psp_latency < webhook_at"},
				{p.ReinstallAt != p.Network+2*p.PSPLatency, "reinstall_at ≠ network + 2·psp_latency: what is due at one moment has no order"},
			}
		},
		world: func(Params) setting { return setting{devices: true} },
		steps: func(p Params) []step {
			return append([]step{
				{at: 0, do: doTap, who: "api-1", tag: "A1", amount: p.Amount, lost: true},
				{at: p.ReinstallAt, do: doForget, tag: "reinstall"},
				{at: p.ReinstallAt, do: doLast, who: "api-2", tag: "last?"},
			}, quietTail(p, p.Network+2*p.PSPLatency)...)
		},
		expect: expectReinstall,
	}}
}

func expectLikes(p Params, r *Result, c *checks) {
	n := p.FirstNumber
	like, unlike := fmt.Sprintf("200 applied liked at %s", Seconds(0)), fmt.Sprintf("200 applied unliked at %s", Seconds(p.UnlikeAt))
	again, twin := fmt.Sprintf("200 repeat liked at %s", Seconds(p.ClientTimeout)), "unliked"
	if p.UnlikeAt < p.ClientTimeout {
		again, twin = fmt.Sprintf("200 stale unliked at %s", Seconds(p.ClientTimeout)), "liked"
	}
	var sent []string
	for _, l := range r.lines {
		if l.op == "tap" {
			sent = append(sent, l.what)
		}
	}
	want := []string{fmt.Sprintf("sends LIKE(%d) about %s", n, post), fmt.Sprintf("sends UNLIKE(%d) about %s", n+1, post), fmt.Sprintf("sends LIKE(%d) about %s", n, post)}
	if p.UnlikeAt > p.ClientTimeout {
		want[1], want[2] = want[2], want[1]
	}
	c.given("what the device sends", fmt.Sprint(sent), fmt.Sprint(want))
	c.given("with versions it ends", r.end(post+", with versions"), "unliked")
	c.given("without versions it ends", r.end(post+", without"), twin)
	c.chosen("LIKE", r.answer("LIKE"), like)
	c.chosen("UNLIKE", r.answer("UNLIKE"), unlike)
	c.chosen("LIKE again", r.answer("LIKE again"), again)
}

func expectReinstall(p Params, r *Result, c *checks) {
	state := "PROCESSING"
	if p.ReinstallAt > p.Network+2*p.PSPLatency {
		state = "SUCCEEDED"
	}
	c.given("what was my last action?", r.end("the device's last action"), fmt.Sprintf("%d: pay_7", p.FirstNumber))
	c.given("and what became of it", r.answer("last?"), fmt.Sprintf("200 %s at %s", state, Seconds(p.ReinstallAt)))
	c.chosen("the device counts on with", r.end("the device's next number"), p.FirstNumber+1)
	c.chosen("charges", chargeList(r.Charges), fmt.Sprintf("ch_1 (pay_7:charge) %s at %s", amount(p.Amount), Seconds(p.Network+p.PSPLatency)))
	c.given("charged in total", dollars(r.ChargedTotal), dollars(p.Amount))
	c.chosen("m1 at the end", r.Balances[merchant], p.Opening+p.Amount)
	c.chosen("the auditor's verdict", r.Harm, "none")
}
