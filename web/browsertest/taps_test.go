package browsertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// orders is how many orders each kind of impatience pays. A gap of a few
// milliseconds is met in some of them, not in each.
const orders = 10

// middle returns the middle of the button that pays.
func (p *tab) middle() (x, y float64) {
	p.t.Helper()
	at, err := evaluate[[]float64](p, `(() => { const e = document.getElementById('tap'); e.scrollIntoView({ block: 'center' });
	  const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()`)
	if err != nil {
		p.t.Fatal(err)
	}
	return at[0], at[1]
}

// order puts an order on the form.
func (p *tab) order(name string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`((e) => { e.value = %q; e.dispatchEvent(new Event('input', { bubbles: true })); return true })(document.getElementById('order'))`, name))
	p.await(`document.getElementById('tap').textContent === 'Pay $30.00' && !document.getElementById('tap').disabled`)
}

const settled = `document.getElementById('tap').textContent === 'Paid' && document.querySelector('#journal li').dataset.state === 'done' && !document.querySelector('#journal li[data-state=pending], [aria-busy]')`

// finger touches a place for a moment.
func finger(x, y float64) action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		touch := func(kind input.DispatchTouchEventType, at ...*input.TouchPoint) error {
			_, err := cdp.Call(ctx, t, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: append([]*input.TouchPoint{}, at...)})
			return err
		}
		if err := touch("touchStart", &input.TouchPoint{X: x, Y: y}); err != nil {
			return err
		}
		return touch("touchEnd")
	})
}

func touchScreen() action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true})
		return err
	})
}

// Somebody taps until the page says "Paid", and some taps come after that. The real
// server answers as fast as it can, so taps meet every moment of a send and of what
// comes after it.
//
// case 27
func TestAnOrderThatIsTappedUntilItIsPaidIsChargedOnce(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name  string
		setup []action
		tap   func(p *tab) action
	}{
		{"mouse", nil, func(p *tab) action { return chromedp.MouseClickXY(p.middle()) }},
		{"touch", []action{chromedp.EmulateViewport(360, 900), touchScreen()}, func(p *tab) action { return finger(p.middle()) }},
		{"enter", nil, func(p *tab) action {
			p.do(chromedp.Focus(chromedp.CSS("#order")))
			return chromedp.KeyEvent(kb.Enter)
		}},
		{"enter on the button", nil, func(p *tab) action {
			p.do(chromedp.Focus(chromedp.CSS("#tap")))
			return chromedp.KeyEvent(kb.Enter)
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			p := openTab(t, s.URL, way.setup...)
			for n := range orders {
				p.order(fmt.Sprintf("%s-%d", way.name[:5], n))
				tap := way.tap(p)
				for paid := false; !paid; {
					p.do(tap, tap, tap)
					var err error
					if paid, err = evaluate[bool](p, settled); err != nil {
						t.Fatal(err)
					}
				}
				p.do(tap, tap, tap)
				p.await(settled)
				if got, want := s.charges(p.ctx), n+1; got != want {
					t.Fatalf("order %d: got %d charges, want %d", n, got, want)
				}
			}
			s.ended(p.ctx, orders)
		})
	}
}

// deaf is a tab that does not hear the others.
func deaf() action {
	return channelIs(`class { postMessage() {} }`)
}

func channelIs(what string) action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `globalThis.BroadcastChannel = ` + what,
		})
		return err
	})
}

// The idle tab has not heard yet that the order is paid: its tap sends the same key.
//
// case 27
func TestATapInAnotherTabOfAPaidOrderChargesNothingMore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	paying, idle := openTab(t, s.URL), openTab(t, s.URL, deaf())
	for n := range orders {
		order := fmt.Sprintf("tabs-%d", n)
		paying.order(order)
		idle.order(order)
		at := chromedp.MouseClickXY(idle.middle())
		paying.click("tap")
		paying.await(settled)
		idle.do(at)
		idle.await(settled)
		if got, want := s.charges(idle.ctx), n+1; got != want {
			t.Fatalf("order %d: got %d charges, want %d", n, got, want)
		}
	}
	idle.awaitSaid("paid already")
	s.ended(idle.ctx, orders)
}

// Two people at one till: both tap the same order at the same time.
//
// case 27
func TestTapsInTwoTabsAtOnceChargeOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	tabs := []*tab{openTab(t, s.URL), openTab(t, s.URL)}
	for n := range orders {
		var taps []action
		for _, p := range tabs {
			p.order(fmt.Sprintf("both-%d", n))
			taps = append(taps, chromedp.MouseClickXY(p.middle()))
		}
		for range 6 {
			for i, p := range tabs {
				p.do(taps[i])
			}
		}
		for _, p := range tabs {
			p.await(settled)
		}
		if got, want := s.charges(tabs[0].ctx), n+1; got != want {
			t.Fatalf("order %d: got %d charges, want %d", n, got, want)
		}
	}
	s.ended(tabs[0].ctx, orders)
}

// What is paid in one tab shows in the other, without a tap there.
func TestAnotherTabShowsWhatWasPaid(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p, other := openTab(t, api.URL), openTab(t, api.URL)
	other.order("42")
	p.click("tap")
	p.awaitSaid("Paid $30.00")
	other.await(settled)
	p.click("next", "offline", "tap")
	p.awaitSaid("nothing left the phone")
	other.order("7")
	p.click("offline", "prune")
	other.awaitJournal("pending") // the other, paid one is forgotten there too
}

// What is forgotten would be a new order, and a tap that comes late a second charge.
//
// case 27
func TestAPaidOrderThatIsForgottenIsNotOfferedAgainInAnyTab(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	tabs := []*tab{openTab(t, s.URL), openTab(t, s.URL), openTab(t, s.URL, deaf())}
	for _, p := range tabs {
		p.order("42")
	}
	tabs[0].click("tap")
	for _, p := range tabs {
		p.await(settled)
	}
	tabs[0].click("prune")
	for _, p := range tabs {
		p.await(`document.getElementById('order').value === '43' && document.getElementById('tap').textContent === 'Pay $30.00'`)
	}
	if got := s.charges(tabs[0].ctx); got != 1 {
		t.Errorf("got %d charges, want 1", got)
	}
}

// Old browsers have no channel between tabs, and some pages may not open one.
func TestThePagePaysWithoutAChannelBetweenTabs(t *testing.T) {
	t.Parallel()
	for _, channel := range []string{`undefined`, `class { constructor() { throw new DOMException('no', 'SecurityError') } }`} {
		p := openTab(t, newAPI(t).URL, channelIs(channel))
		p.click("tap")
		p.awaitSaid("Paid $30.00")
	}
}

// A key that is held down is one press, and a press too many after the payment
// is none.
func TestEnterHeldDownPaysOneOrder(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.order("42")
	p.do(chromedp.Focus(chromedp.CSS("#tap")))
	held := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13, AutoRepeat: new(true)})
		return err
	})
	p.do(chromedp.KeyEvent(kb.Enter))
	p.await(`document.activeElement.id === 'said'`)
	p.do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Enter), chromedp.Focus(chromedp.CSS("#next")))
	for range 10 {
		p.do(held)
	}
	p.await(settled + ` && document.getElementById('order').value === '42'`)
	p.do(chromedp.KeyEvent(kb.Enter)) // one new press
	p.await(`document.getElementById('order').value === '43' && document.activeElement.id === 'said'`)
	sameKey(t, api.awaitSends(p.ctx, t, 1), 1)
}
