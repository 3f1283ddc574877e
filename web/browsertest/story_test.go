package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// awaitStory waits until a branch is shown.
func (p *tab) awaitStory(branch string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`document.getElementById('story').getAttribute('aria-busy') === 'false' && document.getElementById('branch').value === %q && new URLSearchParams(location.search).get('id') === %[1]q`, branch))
}

// awaitStep waits until an event is the current one everywhere on the page.
func (p *tab) awaitStep(n int) {
	p.t.Helper()
	p.await(fmt.Sprintf(`document.getElementById('now').textContent.startsWith('Event %d of') && document.getElementById('slider').value === '%[1]d' &&
	  document.querySelector('.row.current')?.dataset.n === '%[1]d' && document.querySelector('#events [aria-current]')?.dataset.n === '%[1]d'`, n))
}

// facts reads the final count.
func (p *tab) facts() string {
	p.t.Helper()
	return strings.Join(strings.Fields(p.text("count")), " ")
}

// choose picks a branch as a person does.
func (p *tab) choose(branch string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`(() => { const b = document.getElementById('branch'); b.value = %q; b.dispatchEvent(new Event('change', { bubbles: true })); return true })()`, branch))
	p.awaitStory(branch)
}

// inBox checks that the current event shows in the diagram's box.
func (p *tab) inBox() {
	p.t.Helper()
	ok, err := evaluate[bool](p, `(() => { const b = document.getElementById('diagram').getBoundingClientRect();
	  return [...document.querySelectorAll('.row.current')].every((r) => { const c = r.getBoundingClientRect(); return c.top >= b.top && c.bottom <= b.bottom && c.left >= b.left && c.right <= b.right }) })()`)
	if err != nil || !ok {
		p.t.Errorf("the current event is outside the box: %v", err)
	}
}

// noSideways checks that the page itself does not scroll sideways.
func (p *tab) noSideways() {
	p.t.Helper()
	got, err := evaluate[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
	if err != nil || got > 0 {
		p.t.Errorf("the page is %d pixels too wide: %v", got, err)
	}
}

func TestTheStoryIsSteppedThroughAndAnotherDesignChargesTwice(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL+"/story", chromedp.EmulateViewport(1440, 1000))
	p.awaitStory("main")
	p.awaitStep(1)
	for _, want := range []string{"1 charge", "3,000", "1 credit", "15,000", "no harm"} {
		if got := p.facts(); !strings.Contains(got, want) {
			t.Errorf("final count = %q, want %q", got, want)
		}
	}
	p.screenshot("story-first")
	p.click("next")
	p.awaitStep(2)
	p.do(chromedp.KeyEvent(kb.ArrowRight))
	p.awaitStep(3)
	p.do(chromedp.KeyEvent(kb.ArrowLeft))
	p.awaitStep(2)
	p.do(chromedp.KeyEvent(kb.End))
	p.awaitStep(20)
	p.inBox()
	p.await(`document.getElementById('snapshot').textContent.includes('after 19') && document.getElementById('snapshot').textContent.includes('P6')`)
	p.do(chromedp.Focus(chromedp.CSS("#slider")), chromedp.KeyEvent(kb.Home))
	p.awaitStep(1)
	p.await(`(document.querySelector('[data-snap=P2]').click(), true)`)
	p.awaitStep(9)
	p.inBox()
	if got := p.text("snapshot"); !strings.Contains(got, "UNKNOWN") {
		t.Errorf("snapshot after event 9 = %q, want UNKNOWN", got)
	}
	p.screenshot("story-wide")
	p.picture("story", 1440, 1280, chromedp.CaptureScreenshot())

	p.choose("naive")
	p.awaitStep(1)
	for _, want := range []string{"2 charges", "6,000", "$60.00"} {
		if got := p.facts(); !strings.Contains(got, want) {
			t.Errorf("final count of naive = %q, want %q", got, want)
		}
	}
	p.screenshot("story-naive")
	p.choose("six-ways")
	p.await(`document.querySelectorAll('#ways tbody tr').length === 7 && document.getElementById('picture').hidden`)
	p.screenshot("story-six-ways")
}

func TestAConstantChangesWhatComesOutAndABadOneIsExplained(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL+"/story?id=X&amount=4200")
	p.awaitStory("X")
	p.await(`document.getElementById('count').textContent.includes('8,400') && document.getElementById('c-amount').value === '4200'`)
	set := func(name, value string) {
		p.await(fmt.Sprintf(`(document.getElementById('c-%s').value = %q, true)`, name, value))
	}
	set("retry_at", "3000") // the key record still knows the key
	p.click("play")
	p.await(`document.getElementById('count').textContent.includes('1 charge') && location.search.includes('retry_at=3000')`)
	p.click("defaults")
	p.await(`document.getElementById('count').textContent.includes('6,000') && location.search === '?id=X'`)

	set("deadline", "soon")
	p.click("play")
	p.await(`document.getElementById('trouble').textContent.startsWith('deadline: there is no unit "soon"') && document.activeElement.id === 'c-deadline' && document.activeElement.getAttribute('aria-invalid') === 'true'`)
	p.screenshot("story-trouble")
	set("deadline", "4")
	p.click("play")
	p.await(`document.getElementById('trouble').textContent === '' && !document.querySelector('[aria-invalid]') && location.search.includes('deadline=4')`)
}

func TestTheStoryFitsANarrowDarkScreen(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL+"/story", dark(), chromedp.EmulateViewport(360, 740))
	for _, branch := range []string{"main", "X", "naive", "six-ways"} {
		if branch != "main" {
			p.choose(branch)
		}
		p.awaitStory(branch)
		p.noSideways()
	}
	p.choose("main")
	p.awaitStep(1)
	p.do(chromedp.KeyEvent(kb.End))
	p.awaitStep(20)
	p.noSideways()
	inBox, err := evaluate[bool](p, `document.getElementById('diagram').scrollWidth > document.getElementById('diagram').clientWidth`)
	if err != nil || !inBox {
		t.Errorf("the diagram does not scroll inside its box: %v", err)
	}
	p.screenshot("story-narrow")
	p.do(chromedp.EmulateViewport(320, 740))
	p.noSideways()
	wide, err := evaluate[float64](p, `document.querySelector('#events tbody td:last-child').getBoundingClientRect().width`)
	if err != nil || wide < 240 {
		t.Errorf("what happened is %v pixels wide of 320, want at least 240: %v", wide, err)
	}
	p.screenshot("story-320")
}

// An empty header names nothing, and two landmarks of one name cannot be told apart.
func TestTheStorysHeadersAndLandmarksHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL+"/story")
	for _, branch := range []string{"main", "six-ways"} {
		if branch != "main" {
			p.choose(branch)
		}
		p.awaitStory(branch)
		got, err := evaluate[[]string](p, `(() => {
		  const empty = [...document.querySelectorAll('th')].filter((e) => !e.textContent.trim()).map((e) => 'an empty header in ' + e.closest('table').id);
		  const name = (e) => e.ariaLabel ?? document.getElementById(e.getAttribute('aria-labelledby'))?.textContent;
		  const names = [...document.querySelectorAll('section[aria-labelledby], section[aria-label], [role=region]')].filter((e) => e.getClientRects().length).map(name);
		  return empty.concat(names.filter((n, i) => !n || names.indexOf(n) !== i).map((n) => 'landmark ' + n));
		})()`)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > 0 {
			t.Errorf("%s: got %v, want none", branch, got)
		}
	}
}

func TestThePhoneAndTheStoryLeadToEachOther(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := openTab(t, s.URL)
	p.await(`(document.querySelector('a[href="/story"]').click(), true)`)
	p.awaitStory("main")
	p.await(`(document.querySelector('a[href="/"]').click(), true)`)
	p.await(`document.getElementById('pay') !== null`)
}
