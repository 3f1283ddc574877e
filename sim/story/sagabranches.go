package story

import (
	"fmt"
	"time"

	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/sim"
)

// booked is when the charge of A1 leaves, and when it lands.
func booked(p Params) (leaves, charged time.Duration) {
	leaves = 3 * p.Network // the phone's way, the airline's two
	return leaves, leaves + p.PSPLatency
}

func sagaNeeds(p Params) []need {
	leaves, _ := booked(p)
	return []need{
		{2*p.Network < p.Deadline && 2*p.PSPLatency < p.Deadline, "2·network and 2·psp_latency < deadline"},
		{leaves+p.Deadline+2*p.Network < p.ClientTimeout, "5·network + deadline < client_timeout: the phone comes back when A1 is over"},
		{leaves+2*p.PSPLatency+3*p.Network < p.ClientTimeout, "6·network + 2·psp_latency < client_timeout"},
	}
}

// sagaEnd plays the rest.
func (f *flight) sagaEnd(t time.Duration) {
	p := f.st.p
	f.st.until(t + 2*p.Deadline + 6*p.Network + 4*p.PSPLatency + 5*time.Second)
	f.ended()
}

func declined(st *stage) {
	f := newFlight(st)
	st.note(st.w.Core().AddFaults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.Decline}))
	st.moment(0, func() { f.book("A1", "api-1") })
	f.sagaEnd(0)
}

func lostReply(st *stage) {
	f := newFlight(st)
	st.w.LoseReplies("psp charge", 1)
	st.moment(0, func() { f.book("A1", "api-1") })
	st.moment(st.p.ClientTimeout, func() { f.book("A2", "api-2") })
	f.sagaEnd(st.p.ClientTimeout)
}

func crashed(st *stage) {
	f := newFlight(st)
	st.script.At(sim.ScriptedFault{Node: "api-1", Op: "psp charge", Do: "crash-after"})
	st.moment(0, func() { f.book("A1", "api-1") })
	st.moment(st.p.ResumeAt, func() {
		p, r, _ := f.runner("api-2", "resume")
		st.w.Go(p, 0, func() {
			st.say("api-2", "resume", "resume", "looks for sagas that nobody advances")
			n, err := r.RunOnce(background)
			st.note(err)
			if n == 0 {
				st.say("api-2", "resume", "nothing", "finds nothing to do")
			}
		})
	})
	f.sagaEnd(st.p.ResumeAt)
}

func refused(st *stage) {
	f := newFlight(st)
	f.gone = true
	st.moment(0, func() { f.book("A1", "api-1") })
	f.sagaEnd(0)
}

func lateOriginal(st *stage) {
	f := newFlight(st)
	f.stuck = true
	st.moment(0, func() { f.book("A1", "api-1") })
	f.sagaEnd(max(st.p.LateAt, st.p.Deadline))
}

func sagaBranches() []scenario {
	return []scenario{{
		group: "Sagas", id: "saga", title: "A seat and a charge, and the card is declined",
		moral: "Each step commits on its own. A definite refusal turns the saga, and what was begun is undone under keys of its own.",
		needs: sagaNeeds, program: declined,
		expect: func(p Params, r *Result, c *checks) {
			c.chosen("A1", r.answer("A1"), "409 COMPENSATED at 0.00")
			expectFlight(p, r, c, "COMPENSATED", "FREE", nil, 0,
				"book_7:seat DONE, book_7:charge REFUSED, book_7:cancel:refund DONE, book_7:cancel:release DONE")
		},
	}, {
		group: "Sagas", id: "saga-refund", title: "A seat and a charge, and then the flight is cancelled",
		moral: "The charge stands and is given back under its own key; others could see it meanwhile, which is what a saga gives up.",
		needs: sagaNeeds, program: refused,
		expect: func(p Params, r *Result, c *checks) {
			_, at := booked(p)
			back := at + p.PSPLatency + 2*p.Network + p.PSPLatency
			c.chosen("A1", r.answer("A1"), "409 COMPENSATED at 0.00")
			c.chosen("given back", r.end("given back"), fmt.Sprintf("re_1 (book_7:cancel:refund) %s at %s", amount(p.Amount), Seconds(back)))
			expectFlight(p, r, c, "COMPENSATED", "FREE", []time.Duration{at}, 1,
				"book_7:seat DONE, book_7:charge DONE, book_7:ticket REFUSED, book_7:cancel:refund DONE, book_7:cancel:release DONE")
			c.chosen("the auditor's verdict", r.Harm, "none")
		},
	}, {
		group: "Sagas", id: "saga-lost", title: "A seat and a charge, and the processor's reply is lost",
		moral: "The step is UNKNOWN, not failed. The retry finds the same saga, which asks again with the same key.",
		needs: sagaNeeds, program: lostReply,
		expect: func(p Params, r *Result, c *checks) {
			_, at := booked(p)
			c.chosen("A1, while nobody knows", r.answer("A1"), "202 RUNNING at 0.00")
			c.chosen("A2, the phone's retry", r.answer("A2"), "201 COMPLETED at "+Seconds(p.ClientTimeout).String())
			expectFlight(p, r, c, "COMPLETED", "SOLD", []time.Duration{at}, 2, bookedLog)
		},
	}, {
		group: "Sagas", id: "saga-crash", title: "A seat and a charge, and the server dies in the middle",
		moral: "The log says what may have been called. Another server goes on from it alone, with the same keys.",
		needs: func(p Params) []need {
			leaves, _ := booked(p)
			return append(sagaNeeds(p), need{p.ResumeAt > leaves+p.Deadline+recordTakes+p.Margin, "3·network + deadline + 1 + margin < resume_at: the lease is over"})
		},
		program: crashed,
		expect: func(p Params, r *Result, c *checks) {
			_, at := booked(p)
			c.chosen("answers to the phone", len(r.Answers), 0)
			expectFlight(p, r, c, "COMPLETED", "SOLD", []time.Duration{at}, 2, bookedLog)
		},
	}, {
		group: "Sagas", id: "saga-late", title: "A call for the seat arrives after it was cancelled",
		moral: "The compensation found nothing to undo and left a mark. The late original meets it and holds nothing.",
		needs: func(p Params) []need {
			over := p.Network + p.Deadline + p.Network // the call's time is over, and the release has arrived
			return append(sagaNeeds(p), need{p.LateAt != over && p.LateAt != p.Network+p.Deadline && p.LateAt > p.Network, "network < late_at ≠ network + deadline, and ≠ 2·network + deadline"})
		},
		program: lateOriginal, expect: expectLateOriginal,
	}}
}

const bookedLog = "book_7:seat DONE, book_7:charge DONE, book_7:ticket DONE"

func expectLateOriginal(p Params, r *Result, c *checks) {
	late := "refused, void"
	if p.LateAt < 2*p.Network+p.Deadline {
		late = "done" // it came before the release, which then undid it
	}
	c.chosen("the late original", r.end("the late original"), late)
	c.chosen("A1", r.answer("A1"), "409 COMPENSATED at 0.00")
	expectFlight(p, r, c, "COMPENSATED", "FREE", nil, 0, "book_7:seat UNKNOWN, book_7:cancel:release DONE")
}

// expectFlight checks what stands at the end.
func expectFlight(p Params, r *Result, c *checks, state, seat string, charged []time.Duration, asked int, log string) {
	var charges []Charge
	for _, at := range charged {
		charges = append(charges, Charge{Key: "book_7:charge", At: Seconds(at), Amount: p.Amount})
	}
	c.chosen("the saga", r.end("the saga"), state)
	c.chosen("seat 12A", r.end("seat 12A"), seat)
	c.chosen("the saga's log", r.end("the saga's log"), log)
	c.chosen("charges", chargeList(r.Charges), chargeList(sortCharges(charges)))
	c.chosen("charged in total", dollars(r.ChargedTotal), dollars(p.Amount*int64(len(charged))))
	c.chosen("requests with the charge's key", fmt.Sprint(requests(r)), fmt.Sprint(asked))
}
