package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// loseThenTapAgain is the first story of the project: the answer is lost on its
// way, and the same tap is done again.
func loseThenTapAgain(p *tab) {
	p.t.Helper()
	p.click("lose", "tap")
	p.awaitSaid("Tap again")
	p.awaitJournal("pending")
	p.click("tap")
	p.awaitSaid("paid already")
	p.awaitJournal("done")
}

// case 27
func TestALostReplyIsOneChargeOneCreditOneNotification(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL)
	loseThenTapAgain(p)
	s.ended(p.ctx, 1)
	p.await(`document.querySelectorAll('#notes li').length === 1`)
	p.await(`document.getElementById('balance').textContent === '$150.00 (m1)'`)
	await(p.ctx, t, "the counts of the hops", func() bool { return s.hopCount(p, "push provider", "sends") == 1 })
	for _, want := range []struct {
		hop, what string
		n         int
	}{
		{"payment API", "first requests", 1}, {"payment API", "repeats answered", 1},
		{"card processor", "charges", 1}, {"worker", "credits", 1}, {"push provider", "sends", 1},
	} {
		if got := s.hopCount(p, want.hop, want.what); got != want.n {
			t.Errorf("%s: %s = %d, want %d", want.hop, want.what, got, want.n)
		}
	}
	p.await(`[...document.querySelectorAll('#hops tbody tr')].at(-1).textContent.includes('sends 1')`)
	p.await(`document.querySelector('#hops tbody tr').textContent.endsWith('sends 2')`) // the phone's own, by its journal
	p.picture("phone-lost-reply", 1280, 900, chromedp.FullScreenshot(100))
	p.picture("phone-narrow", 360, 840, chromedp.CaptureScreenshot())
}

func TestKill9InTheMiddleOfASlowPaymentIsOneChargeMore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL)
	loseThenTapAgain(p)
	s.ended(p.ctx, 1)

	p.serverWillDie()
	p.click("next", "slow")
	await(p.ctx, t, "the slow switch", func() bool {
		return get[struct{ Slow bool }](p.ctx, t, s, "/phone/faults").Slow
	})
	p.click("tap")
	// The card is charged; the processor's answer takes longer than the deadline.
	await(p.ctx, t, "the second charge", func() bool { return s.charges(p.ctx) == 2 })
	s.kill()
	p.awaitSaid("No answer.")
	p.awaitJournal("pending", "done")

	s.start()
	p.click("auto", "tap") // "in progress" until the dead owner's lease is over
	p.awaitJournal("done", "done")
	s.ended(p.ctx, 2)
}

// case 27
func TestAVoidedKeyNeverChargesHoweverLateItsRequestComes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL)
	p.click("hold", "tap")
	p.awaitSaid("No answer")
	p.click("ask")
	p.awaitSaid("not paid and never will be")
	p.awaitJournal("void")
	p.awaitSaid("too late: 409 void")
	if got := s.charges(p.ctx); got != 0 {
		t.Errorf("%d charges under a voided key, want none", got)
	}
	p.screenshot("real-void")
	p.click("tap")
	p.awaitSaid("Paid $30.00")
	p.awaitJournal("done", "void")
	s.ended(p.ctx, 1)

	p.click("next", "lose", "tap")
	p.awaitSaid("No answer")
	p.click("ask")
	p.awaitSaid("Yes: $30.00 was paid")
	s.ended(p.ctx, 2)
}

// case 23
func TestARefundWhoseReplyIsLostGivesTheMoneyBackOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL)
	p.click("tap")
	p.awaitSaid("Paid $30.00")
	s.ended(p.ctx, 1)
	p.click("lose", "refund")
	p.awaitSaid("The refund may be done, or not")
	p.click("refund")
	p.awaitSaid("nothing was given back twice")
	p.awaitJournal("done", "done")
	p.await(`document.querySelector('#refunds li').dataset.state === 'SUCCEEDED'`)
	type refunds struct {
		Refunded int
		Refunds  []struct {
			State  string
			Amount int
		}
	}
	got := get[refunds](p.ctx, t, s, "/payments/"+p.paymentID()+"/refunds")
	if got.Refunded != 3_000 || len(got.Refunds) != 1 || got.Refunds[0].Amount != 3_000 {
		t.Errorf("got %+v, want one refund of 3000", got)
	}
	p.screenshot("real-refund")
}

// serverWillDie lets the page lose its connections.
func (p *tab) serverWillDie() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serverDies = true
}

// picture writes a picture for the README when RETRYPROOF_UPDATE_SCREENSHOTS is 1.
func (p *tab) picture(name string, width, height int64, take chromedp.Action[[]byte]) {
	p.t.Helper()
	if os.Getenv("RETRYPROOF_UPDATE_SCREENSHOTS") != "1" {
		return
	}
	p.do(chromedp.EmulateViewport(width, height))
	p.await(`document.getAnimations().every((a) => a.playState !== 'running')`)
	data, err := chromedp.Run(p.ctx, take)
	if err != nil {
		p.t.Fatal(err)
	}
	folder := filepath.Join("..", "..", "docs", "img")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), data, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
