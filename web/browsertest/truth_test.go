package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/retryproof/retryproof/push"
)

// offline takes the tab's network away, or gives it back.
func offline(is bool) action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: is, DownloadThroughput: -1, UploadThroughput: -1})
		return err
	})
}

func TestOnlineAgainSaysWhatBecameOfThePayment(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.do(offline(true))
	p.click("tap")
	p.awaitSaid("nothing left the phone")
	p.awaitJournal("pending")
	p.do(offline(false))
	p.awaitJournal("done")
	p.awaitSaid("Online again. Paid $30.00 to m1, once")
	p.await(settled)
}

func TestTheServersSwitchesTellTheTruthAfterKill9(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p, other := openTab(t, s.URL), openTab(t, s.URL)
	p.serverWillDie()
	other.serverWillDie()
	p.click("slow")
	other.await(`document.getElementById('slow').checked && !document.getElementById('psp').checked`) // set elsewhere
	s.kill()
	p.click("psp")
	p.await(`document.getElementById('trouble-said').textContent.includes('did not take the switch')`)
	p.await(`document.getElementById('slow').checked && !document.getElementById('psp').checked`) // as far as anybody knows
	s.start()
	for _, tab := range []*tab{p, other} { // the switches die with the server
		tab.await(`['psp', 'slow'].every((id) => !document.getElementById(id).checked && !document.getElementById(id).disabled)`)
	}
	p.await(`document.getElementById('trouble-said').textContent === ''`)
	p.click("psp")
	await(p.ctx, t, "the switch", func() bool {
		return get[struct {
			Lost bool `json:"lose_psp_reply"`
		}](p.ctx, t, s, "/phone/faults").Lost
	})
}

func TestSwitchesThatTheServerDoesNotHaveAreOff(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	api.mu.Lock()
	api.faults = nil // as with a processor that is not ours
	api.mu.Unlock()
	p := openTab(t, api.URL)
	p.expected = true // the browser notes the 404
	p.await(`['psp', 'slow'].every((id) => document.getElementById(id).disabled) && document.getElementById('trouble-said').textContent.includes('cannot be switched here')`)
}

func TestThePhoneShowsTheNewestNotesAndCountsTheOthers(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	send := func(to, replace, body string) {
		t.Helper()
		if err := api.phone.Send(t.Context(), push.Notification{To: to, ReplaceID: replace, Title: "Payment received", Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		send("u1", fmt.Sprintf("pay_%d", i), fmt.Sprintf("order %d", i))
	}
	p := openTab(t, api.URL)
	notes := func(want string) {
		t.Helper()
		p.await(fmt.Sprintf(`[...document.querySelectorAll('#notes span')].map((e) => e.textContent).join() === %q`, want))
	}
	more := func(want, counts string) {
		t.Helper()
		p.await(fmt.Sprintf(`((e) => (e.hidden ? '' : e.textContent) === %q)(document.getElementById('notes-more')) && document.getElementById('alerts').textContent === %q`, want, counts))
	}
	notes("order 4,order 3,order 2")
	more("2 more", "5 shown, 5 alerts")
	p.await(`document.getElementById('notes').ariaLive === 'off'`) // they were there already
	p.await(`(document.querySelectorAll('#notes li')[2].born = 'before')`)

	send("u1", "pay_2", "order 2, refunded") // the same line of the screen, with new words
	notes("order 2, refunded,order 4,order 3")
	more("2 more", "5 shown, 6 alerts")
	p.await(`((li) => li.born === 'before' && li.textContent.includes('replaced, 2 alerts'))(document.querySelector('#notes li')) && document.getElementById('notes').ariaLive === 'polite'`)
	p.screenshot("notes")

	send("u2", "pay_9", "order 9")
	p.do(chromedp.SetValue(chromedp.CSS("#buyer"), "u2"))
	notes("order 9")
	more("", "1 shown, 1 alert")
	p.await(`document.getElementById('notes').ariaLive === 'off'`) // another phone: nothing new to be read
}

// The server's data is gone, the journal stays.
func TestAPaymentThatTheServerDoesNotKnowLeavesTheHopTable(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("tap")
	p.await(`document.querySelectorAll('#hops tbody tr').length === 7 && document.getElementById('state').textContent === 'SUCCEEDED'`)
	api.mu.Lock()
	api.payments, api.order = map[string]*payment{}, nil
	api.mu.Unlock()
	p.await(`document.getElementById('hops').hidden && document.getElementById('state').hidden && !document.getElementById('hops-none').hidden`)
	p.awaitJournal("done")
}

func TestAnAmountIsRefusedWhereItIsTyped(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL)
	p.do(chromedp.SetValue(chromedp.CSS("#amount"), "1000000.00"))
	p.click("tap")
	p.awaitSaid("at most $999,999.99")
	p.do(chromedp.SetValue(chromedp.CSS("#amount"), "999999.99"))
	p.click("tap")
	p.awaitSaid("Paid $999,999.99")
}

// case 23
func TestAnOrderAfterAVoidedKeyIsPaidAndRefundedOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL)
	p.click("hold", "tap")
	p.awaitSaid("No answer")
	p.click("ask")
	p.awaitJournal("void")
	p.awaitSaid("too late: 409 void")
	p.click("tap")
	p.awaitSaid("Paid $30.00")
	p.click("refund")
	p.awaitSaid("Refunded $30.00, once")
	p.awaitJournal("done", "done", "void")
	p.await(`document.getElementById('refund').disabled && document.getElementById('refund').textContent === 'Refunded'`)
	p.await(`document.getElementById('balance').textContent === '$120.00 (m1)' && document.querySelector('#refunds li').dataset.state === 'SUCCEEDED'`)
	if got := s.charges(p.ctx); got != 1 {
		t.Errorf("got %d charges, want 1", got)
	}
}

// faultsOff answers as a server whose processor is not ours.
func (a *fakeAPI) faultsOff(w http.ResponseWriter) bool {
	if a.faults != nil {
		return false
	}
	problem(w, http.StatusNotFound, "not-found")
	return true
}

// The page moves nothing under a finger: what comes after a tap would else lie where
// the next one goes.
func TestTheButtonStaysWhereItIs(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	for _, width := range []int64{320, 1280} {
		p := openTab(t, api.URL, chromedp.EmulateViewport(width, 900))
		place := func() string {
			t.Helper()
			got, err := evaluate[string](p, `((r) => [r.x, r.y + scrollY, r.width, r.height].join())(document.getElementById('tap').getBoundingClientRect())`)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		p.order(fmt.Sprint("width-", width))
		want := place()
		see := func(what string) {
			t.Helper()
			if got := place(); got != want {
				t.Errorf("%d pixels, %s: the button is at %s, want %s", width, what, got, want)
			}
		}
		p.click("lose", "tap")
		p.awaitSaid("Tap again")
		see("no answer")
		p.click("tap")
		p.await(settled)
		see("paid")
		_, before := p.middle() // as a finger sees it
		for i := range 6 {
			n := push.Notification{To: "u1", ReplaceID: fmt.Sprint(width, i), Title: "A title that goes on " + strings.Repeat("and on ", 9), Body: strings.Repeat("words ", 20)}
			if err := api.phone.Send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		p.await(`document.getElementById('notes').textContent.includes('words')`)
		see("notes")
		if at, err := evaluate[float64](p, `((r) => r.y + r.height / 2)(document.getElementById('tap').getBoundingClientRect())`); err != nil || at != before {
			t.Errorf("%d pixels: with new notes the button is at %v on the screen, want %v (%v)", width, at, before, err)
		}
		p.click("refund")
		p.awaitSaid("Refunded")
		see("refunded")
	}
}
