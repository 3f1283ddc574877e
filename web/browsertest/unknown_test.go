package browsertest

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// resolve voids a key that nothing is known of.
func (a *fakeAPI) resolve(w http.ResponseWriter, r *http.Request) {
	who, key := caller(r), r.Header.Get("Idempotency-Key")
	if who == "" || key == "" {
		problem(w, 400, "invalid")
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, sent{key: key, caller: who})
	a.notify()
	p := a.payments[who+":"+key]
	if p == nil {
		p = &payment{id: "pay_void" + key[:4], caller: who, state: "VOID"}
		a.payments[who+":"+key] = p
	}
	switch {
	case p.running:
		w.Header().Set("Retry-After", "1")
		problem(w, 409, "in-progress")
	case p.state == "PROCESSING":
		answer(w, p, p.state)
	default:
		reply(w, 200, map[string]any{"id": p.id, "state": p.state, "amount": p.amount, "currency": "USD"})
	}
}

// cancel gives the whole payment back, once.
func (a *fakeAPI) cancel(w http.ResponseWriter, r *http.Request) {
	found, ok := a.find(w, r)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancels = append(a.cancels, sent{key: r.Header.Get("Idempotency-Key"), caller: found.caller})
	a.notify()
	for _, p := range a.order {
		if p.id != found.id {
			continue
		}
		if p.refunded > 0 {
			w.Header().Set("Idempotency-Replayed", "true")
		}
		p.refunded = p.amount
		status, body := 201, refundOf(p, a.pending)
		if a.pending {
			status = 202
		}
		reply(w, status, body)
	}
}

func (a *fakeAPI) refunds(w http.ResponseWriter, r *http.Request) {
	p, ok := a.find(w, r)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []map[string]any{}
	if p.refunded > 0 {
		list = append(list, refundOf(&p, a.pending))
	}
	reply(w, 200, map[string]any{"payment_id": p.id, "refunded": p.refunded, "refunds": list})
}

func refundOf(p *payment, pending bool) map[string]any {
	state := "SUCCEEDED"
	if pending {
		state = "PROCESSING"
	}
	return map[string]any{"id": p.id + ":cancel", "payment_id": p.id, "state": state, "amount": p.refunded, "currency": "USD"}
}

// count is how many of something the API has seen.
func (a *fakeAPI) count(of *[]sent) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(*of)
}

func TestALateOriginalIsRefusedAfterTheQuestion(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("hold", "tap")
	p.awaitSaid("Or ask whether it went through")
	p.awaitJournal("pending")
	if got := len(api.awaitSends(p.ctx, t, 0)); got != 0 {
		t.Fatalf("%d sends arrived, want the request held", got)
	}
	p.screenshot("held")
	p.click("ask")
	p.awaitSaid("not paid and never will be")
	p.awaitJournal("void")
	p.await(`document.getElementById('ask').hidden && document.getElementById('tap').textContent === 'Pay $30.00'`)
	p.await(`document.activeElement.id === 'said'`)
	p.awaitSaid("too late: 409 void")
	p.screenshot("void")
	if got := p.text("a-code"); got != "void" {
		t.Errorf("code = %q, want void", got)
	}
	if got := api.charges(); got != 0 {
		t.Errorf("%d charges, want none", got)
	}
	p.click("tap")
	p.awaitSaid("Paid $30.00")
	p.awaitJournal("done", "void")
	sends := api.awaitSends(p.ctx, t, 2)
	if len(sends) != 2 || sends[0].key == sends[1].key || api.charges() != 1 {
		t.Errorf("sends = %v and %d charges, want the late one, a new key, and one charge", sends, api.charges())
	}
}

func TestAHeldRequestThatComesAfterTheNextTapChargesNothingMore(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("hold", "tap")
	p.awaitSaid("No answer")
	p.click("tap")
	p.awaitSaid("Nothing was done twice")
	p.awaitJournal("done")
	sameKey(t, api.awaitSends(p.ctx, t, 2), 2)
	if got := api.charges(); got != 1 {
		t.Errorf("%d charges, want 1", got)
	}
}

func TestTheQuestionTellsAPaymentWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("lose", "tap")
	p.awaitSaid("No answer")
	p.click("lose", "ask") // this answer is lost too
	p.awaitSaid("No answer to the question")
	p.awaitJournal("pending")
	p.click("offline", "ask")
	p.awaitSaid("the question did not leave the phone")
	p.click("offline", "ask")
	p.awaitSaid("Yes: $30.00 was paid to m1, once")
	p.awaitJournal("done")
	sameKey(t, api.awaitSends(p.ctx, t, 1), 1)
	if got := api.count(&api.asked); got != 2 {
		t.Errorf("%d questions arrived, want 2", got)
	}
	p.await(`document.getElementById('tap').disabled && document.querySelectorAll('#hops tbody tr').length === 7`)
}

func TestTheQuestionWaitsForASendAndKeepsTheKeyWhileNobodyKnows(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	api.hold()
	p := openTab(t, api.URL)
	p.click("lose", "tap")
	api.awaitSends(p.ctx, t, 1)
	other := openTab(t, api.URL)
	other.awaitSaid("Another tab is sending")
	other.click("ask")
	other.awaitSaid("Asking what became of the key")
	if got := api.count(&api.asked); got != 0 {
		t.Errorf("%d questions while the first tab's send is under way, want none", got)
	}
	api.release()
	other.awaitSaid("Yes: $30.00 was paid")
	other.awaitJournal("done")
	p.awaitSaid("Paid $30.00 to m1, once") // what the question found shows in both tabs
	sameKey(t, api.awaitSends(p.ctx, t, 1), 1)

	api.setPending(true)
	other.click("next", "tap")
	other.awaitSaid("still finding out")
	other.click("ask")
	other.awaitSaid("still being worked on")
	other.awaitJournal("pending", "done")
	api.settle()
	other.click("ask")
	other.awaitJournal("done", "done")
}

func TestARefundWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("tap")
	p.awaitSaid("Paid $30.00")
	p.await(`document.querySelectorAll('#hops tbody tr').length === 7`)
	if got := p.text("refund"); got != "Refund $30.00" {
		t.Errorf("button = %q", got)
	}
	p.click("lose")
	p.do(chromedp.Focus(chromedp.CSS("#refund")), chromedp.SendKeys(chromedp.CSS("#refund"), kb.Enter)) // by keyboard
	p.awaitSaid("The refund may be done, or not")
	p.awaitJournal("pending", "done")
	p.await(`document.getElementById('refund').textContent === 'Refund again'`)
	p.click("refund")
	p.awaitSaid("$30.00 was done already")
	p.awaitJournal("done", "done")
	p.await(`document.getElementById('refund').disabled && document.getElementById('refund').textContent === 'Refunded'`)
	p.await(`document.activeElement.id === 'said'`)
	p.await(`document.querySelector('#refunds li').textContent.startsWith('Refund $30.00SUCCEEDED')`)
	p.await(`[...document.querySelectorAll('#journal .badge')].map((b) => b.textContent).join() === 'refunded,paid'`)
	if got, err := evaluate[int](p, `document.querySelectorAll('#hops tbody tr').length`); got != 7 || err != nil {
		t.Errorf("%d hops, want 7 (%v)", got, err)
	}
	api.mu.Lock()
	sameKey(t, api.cancels, 2)
	api.mu.Unlock()
	p.screenshot("refunded")
}

func TestARefundThatIsNotKnownIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("tap")
	p.awaitSaid("Paid $30.00")
	api.setPending(true)
	p.click("refund")
	p.awaitSaid("still finding out whether $30.00 went back")
	p.await(`document.querySelector('#refunds .badge').textContent === 'PROCESSING'`)
	p.await(`(window.born = 'before')`)
	p.do(chromedp.Reload())
	p.await(`window.born === undefined && document.getElementById('said').textContent.includes('Back after a restart')`)
	p.await(`document.getElementById('refund').textContent === 'Refund again' && document.getElementById('order').value === '42'`)
	api.setPending(false)
	p.awaitJournal("done", "done")
	p.await(`document.querySelector('#refunds .badge').textContent === 'SUCCEEDED'`)
}
