package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func sameKey(t *testing.T, sends []sent, n int) {
	t.Helper()
	if len(sends) != n {
		t.Errorf("%d sends arrived, want %d", len(sends), n)
	}
	for _, s := range sends {
		if s != sends[0] {
			t.Errorf("a retry differs: %v, want %v", s, sends[0])
		}
	}
}

func TestLostReplyThenTapAgainSendsTheSameKey(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("lose", "tap")
	p.awaitSaid("Tap again")
	p.awaitJournal("pending")
	if got := p.text("tap"); got != "Tap again $30.00" {
		t.Errorf("button = %q", got)
	}
	p.click("tap")
	p.awaitSaid("paid already")
	p.awaitJournal("done")
	sameKey(t, api.awaitSends(p.ctx, t, 2), 2)
	if got := api.charges(); got != 1 {
		t.Errorf("%d charges, want 1", got)
	}
	if got := p.text("a-replayed"); got != "true" {
		t.Errorf("Idempotency-Replayed = %q, want true", got)
	}
	p.await(`document.querySelector('#journal .tries').textContent === '2 sends'`)
	p.await(`document.querySelectorAll('#hops tbody tr').length === 7`)
	p.await(`document.getElementById('balance').textContent === '$150.00 (m1)'`)
	p.await(`document.querySelectorAll('#notes li').length === 1`)
	p.screenshot("wide")
}

func TestDoubleTapSendsOneKeyTwice(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	api.hold()
	p := openTab(t, api.URL)
	p.click("double", "tap")
	sameKey(t, api.awaitSends(p.ctx, t, 2), 2)
	api.release()
	p.awaitJournal("done")
	p.awaitSaid("Two sends, one key, one payment")
	if got := api.charges(); got != 1 {
		t.Errorf("%d charges, want 1", got)
	}
}

func TestImpatientTapsJoinTheFirst(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	api.hold()
	p := openTab(t, api.URL)
	p.click("tap", "tap", "tap")
	api.awaitSends(p.ctx, t, 1)
	api.release()
	p.awaitJournal("done")
	sameKey(t, api.awaitSends(p.ctx, t, 1), 1)
}

func TestAKilledAppResumesWithTheSameKey(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	api.hold()
	p := openTab(t, api.URL)
	p.await(`(window.born = 'before')`)
	p.click("kill", "tap")
	api.awaitSends(p.ctx, t, 1)
	p.await(`window.born === undefined && document.getElementById('said').textContent.includes('closed in mid-send')`)
	api.awaitSends(p.ctx, t, 2)
	api.release()
	p.awaitJournal("done")
	p.awaitSaid("Back after a restart")
	sends := api.awaitSends(p.ctx, t, 2)
	sameKey(t, sends, len(sends))
	if got := api.charges(); got != 1 {
		t.Errorf("%d charges, want 1", got)
	}
}

func TestOfflineSendsNothingUntilOnline(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("offline", "tap")
	p.awaitSaid("nothing left the phone")
	p.awaitJournal("pending")
	key := p.text("journal")
	if got := api.awaitSends(p.ctx, t, 0); len(got) != 0 {
		t.Fatalf("%d sends arrived from an offline phone", len(got))
	}
	p.click("offline", "tap")
	p.awaitJournal("done")
	sends := api.awaitSends(p.ctx, t, 1)
	sameKey(t, sends, 1)
	if !strings.HasPrefix(key, sends[0].key[:8]) {
		t.Errorf("journal shows %q, but %q was sent", key, sends[0].key)
	}
}

func TestTheEndOfAnUnfinishedPaymentReachesTheJournal(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	api.setPending(true)
	p := openTab(t, api.URL)
	p.click("tap")
	p.awaitSaid("still finding out")
	p.awaitJournal("pending")
	p.await(`document.getElementById('state').textContent === 'PROCESSING'`)
	api.settle()
	p.awaitJournal("done")
	p.await(`document.getElementById('state').textContent === 'SUCCEEDED'`)
	sameKey(t, api.awaitSends(p.ctx, t, 2), 2)
}

func TestAnotherAmountCannotTakeOverAnUnfinishedPayment(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("lose", "tap")
	p.awaitSaid("Tap again")
	p.do(chromedp.SetValue(chromedp.CSS("#amount"), "35.00"))
	p.click("tap")
	p.awaitSaid("unfinished payment of $30.00")
	if got := len(api.awaitSends(p.ctx, t, 1)); got != 1 {
		t.Errorf("%d sends, want 1", got)
	}
	p.do(chromedp.SetValue(chromedp.CSS("#amount"), "0"), chromedp.SendKeys(chromedp.CSS("#order"), kb.Enter))
	p.awaitSaid("An amount is dollars and cents")
	p.await(`document.activeElement.id === 'amount'`)
}

func TestANewOrderIsANewKey(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.do(chromedp.SendKeys(chromedp.CSS("#amount"), kb.Enter)) // by keyboard
	p.awaitSaid("Paid $30.00 to m1, once")
	p.await(`document.getElementById('tap').disabled`)
	p.click("next")
	p.await(`document.getElementById('next').hidden`) // the form has been laid out again
	p.click("tap")
	p.awaitJournal("done", "done")
	sends := api.awaitSends(p.ctx, t, 2)
	if sends[0].key == sends[1].key || !strings.Contains(sends[1].body, "43") {
		t.Errorf("sends = %v, want two keys and order 43", sends)
	}
	p.click("prune")
	p.awaitJournal()
}

func TestOfTwoTabsOneResumes(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	first := openTab(t, api.URL)
	first.click("offline", "tap")
	first.awaitSaid("nothing left the phone")
	api.hold()
	second := openTab(t, api.URL)
	api.awaitSends(second.ctx, t, 1)
	third := openTab(t, api.URL)
	third.awaitSaid("Another tab")
	api.release()
	second.awaitSaid("Paid $30.00")
	sameKey(t, api.awaitSends(second.ctx, t, 1), 1)
}

func TestTheServersSwitchesTellTheTruthAfterAReload(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.click("psp")
	api.until(p.ctx, t, "the switch", func() bool { return api.faults["lose_psp_reply"] && !api.faults["slow"] })
	p.do(chromedp.Reload())
	p.await(`document.getElementById('psp').checked && !document.getElementById('slow').checked`)
}

func TestNarrowScreensDoNotScrollSideways(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL, dark())
	p.click("lose", "tap")
	p.awaitSaid("Tap again")
	p.screenshot("wide-dark")
	p.click("tap", "refund")
	p.await(`document.querySelectorAll('#hops tbody tr').length === 7 && document.querySelectorAll('#refunds li').length === 1`)
	p.await(`document.querySelectorAll('#notes li').length === 1`)
	for _, width := range []int64{320, 360, 720, 821, 1280} {
		p.do(chromedp.EmulateViewport(width, 740))
		got, err := evaluate[[]string](p, `[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 || e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'auto').map((e) => e.tagName + '#' + e.id).concat(document.documentElement.scrollWidth > innerWidth ? ['the page itself'] : [])`)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > 0 {
			t.Errorf("at %d pixels these go past the edge: %v", width, got)
		}
		p.screenshot(fmt.Sprintf("narrow-%d", width))
	}
}

func TestEveryControlHasANameAndReadableColours(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	for _, scheme := range [][]action{nil, {dark()}} {
		p := openTab(t, api.URL, scheme...)
		check := func() {
			t.Helper()
			got, err := evaluate[[]string](p, accessibility)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) > 0 {
				t.Errorf("scheme %d: %v", len(scheme), got)
			}
		}
		p.click("lose", "tap")
		p.awaitSaid("Tap again")
		check()
		p.click("tap", "refund")
		p.await(`document.querySelectorAll('#hops tbody tr').length === 7 && document.querySelectorAll('#notes li').length > 0 && document.querySelectorAll('#refunds li').length > 0`)
		p.await(`document.getElementById('refund').disabled`)
		check()
	}
}

// accessibility lists controls without a name, texts whose contrast with the colour
// behind them is below 4.5:1 (WCAG 2.2, 1.4.3), and controls whose edge has less than
// 3:1 (1.4.11). Gradients are left out.
const accessibility = `(() => {
  const luminance = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const parse = (c) => c.match(/[\d.]+/g).map(Number);
  const out = [];
  const opaque = (e) => { while (e && (parse(getComputedStyle(e).backgroundColor)[3] ?? 1) < 0.9) e = e.parentElement; return e; };
  const edge = (e) => {
    const [a, b] = [getComputedStyle(e).borderTopColor, getComputedStyle(opaque(e.parentElement)).backgroundColor].map((c) => luminance(parse(c))).sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 3) out.push('edge of ' + e.id + ' ' + ((a + 0.05) / (b + 0.05)).toFixed(2));
  };
  for (const e of document.querySelectorAll('input, select, button')) {
    if (!e.hidden && !(e.labels?.length || e.textContent.trim())) out.push('no name: ' + e.id);
    if (!e.disabled && e.getClientRects().length && parseFloat(getComputedStyle(e).borderTopWidth) > 0) edge(e);
  }
  for (const e of document.querySelectorAll('body *')) {
    const style = getComputedStyle(e);
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length || e.tagName === 'OPTION') continue;
    let behind = e;
    while (behind && getComputedStyle(behind).backgroundImage === 'none' && (parse(getComputedStyle(behind).backgroundColor)[3] ?? 1) < 0.9) behind = behind.parentElement;
    if (!behind || getComputedStyle(behind).backgroundImage !== 'none') continue;
    const [a, b] = [luminance(parse(style.color)), luminance(parse(getComputedStyle(behind).backgroundColor))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) out.push(e.tagName + '.' + e.className + '#' + e.id + ' ' + ((a + 0.05) / (b + 0.05)).toFixed(2));
  }
  return out;
})()`

func TestTheDurableJournalKeepsTheContract(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	got, err := evaluate[[]string](p, `(async () => {
	  const { journalSuite } = await import('/js/journal.suite.js');
	  const { IndexedDBJournal } = await import('/js/retryproof.js');
	  const failed = [];
	  for (const [i, [name, check]] of journalSuite.entries()) {
	    const journal = new IndexedDBJournal({ name: 'suite-' + i });
	    try { await check(journal); } catch (error) { failed.push(name + ': ' + error.message); }
	    await journal.close();
	  }
	  const again = [new IndexedDBJournal({ name: 'again' }), new IndexedDBJournal({ name: 'again' })];
	  await again[0].claim({ key: 'k1', slot: 's1', createdAt: 1, state: 'pending' });
	  await again[0].close();
	  if ((await again[1].get('k1'))?.slot !== 's1') failed.push('an entry was lost when the journal was closed');
	  if (journalSuite.length < 10) failed.push('the suite is too small');
	  return failed;
	})()`)
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range got {
		t.Error(failure)
	}
}

func TestAViolationOfThePolicyIsNoticed(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	p := openTab(t, api.URL)
	p.expected = true
	p.await(`(document.body.setAttribute('onclick', 'void 0'), document.body.click(), true)`)
	p.await(`(console.error('seen'), true)`)
	for {
		p.mu.Lock()
		got := strings.Join(p.complaints, "; ")
		p.mu.Unlock()
		if strings.Contains(got, "Content Security Policy") && strings.Contains(got, "seen") {
			return
		}
		if p.ctx.Err() != nil {
			t.Fatalf("complaints = %q, want the violation and the console error", got)
		}
		p.await(`true`)
	}
}
