package browsertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/retryproof/retryproof/internal/testservice"
)

const patience = 60 * time.Second

// browser is one Chromium for all tests; each test has pages of an origin of its
// own, and so a journal of its own.
var browser struct {
	once   sync.Once
	ctx    context.Context
	cancel func()
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.cancel != nil {
		browser.cancel()
	}
	if binary.folder != "" {
		_ = os.RemoveAll(binary.folder)
	}
	os.Exit(code)
}

func start(t *testing.T) context.Context {
	t.Helper()
	path := testservice.Chromium(t)
	browser.once.Do(func() {
		profile, err := os.MkdirTemp("", "retryproof-chromium-")
		if err != nil {
			browser.err = err
			return
		}
		options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(profile)}
		for _, flag := range []string{
			"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-component-update",
			"disable-sync", "disable-default-apps", "disable-extensions", "disable-dev-shm-usage", "disable-background-timer-throttling",
			"disable-backgrounding-occluded-windows", "disable-renderer-backgrounding", "hide-scrollbars",
		} {
			options = append(options, chromedp.Flag(flag, true))
		}
		allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, stop := chromedp.NewContext(allocator)
		browser.ctx = ctx
		browser.cancel = func() {
			_ = chromedp.Cancel(ctx) // the process is ended below in any case
			stop()
			stopAllocator()
			_ = os.RemoveAll(profile)
		}
		browser.err = chromedp.Do(ctx)
	})
	if browser.err != nil {
		t.Fatalf("Chromium did not start: %v", browser.err)
	}
	return browser.ctx
}

// tab is one page; what it complains of fails the test.
type tab struct {
	ctx context.Context
	t   *testing.T

	mu         sync.Mutex
	complaints []string
	expected   bool
	// serverDies: the browser's own complaints about lost connections are expected.
	serverDies bool
}

type action = chromedp.Action[chromedp.Void]

func openTab(t *testing.T, url string, actions ...action) *tab {
	t.Helper()
	own, cancel := chromedp.NewContext(start(t))
	if err := chromedp.Do(own); err != nil { // without the timeout, which would end the browser
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(own, patience)
	p := &tab{ctx: ctx, t: t}
	t.Cleanup(func() {
		stop()
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.complaints) > 0 && !p.expected {
			t.Errorf("the page complained: %s", strings.Join(p.complaints, "; "))
		}
	})
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	p.do(append(append([]action{chromedp.EmulateViewport(1280, 900)}, actions...), chromedp.Navigate(url))...)
	return p
}

func (p *tab) hear(event any) {
	complaint := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			complaint += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			complaint = fmt.Sprintf("console.%s", e.Type)
			for _, arg := range e.Args {
				complaint += fmt.Sprintf(" %s%s", arg.Value, arg.Description)
			}
		}
	case *cdplog.EventEntryAdded:
		// An answer such as 409 is the server's, and the page shows it.
		p.mu.Lock()
		refusal := e.Entry.Source == cdplog.EntrySourceNetwork && (p.serverDies || strings.Contains(e.Entry.URL, "/payments") || strings.Contains(e.Entry.URL, "/story/run"))
		p.mu.Unlock()
		if !refusal && (e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning) {
			complaint = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		complaint = "dialog: " + e.Message
	}
	if complaint != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.complaints = append(p.complaints, complaint)
	}
}

func (p *tab) do(actions ...action) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatalf("browser: %v; the page says %q", err, p.said())
	}
}

// said is for messages: empty when the page cannot be asked.
func (p *tab) said() string {
	said, _ := evaluate[string](p, `document.getElementById('said')?.textContent ?? ''`)
	return said
}

// click clicks one element after another, each as soon as it can be: the page
// enables a button only after it has read its journal, and a click on a disabled one
// is nothing.
func (p *tab) click(ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		p.await(`((e) => !e.hidden && !e.disabled)(document.getElementById('` + id + `'))`)
		p.do(chromedp.Click(chromedp.CSS("#" + id)))
	}
}

// evaluate returns the value of an expression, or of the promise that it is.
func evaluate[T any](p *tab, expression string) (T, error) {
	return chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// await waits until a condition holds in the page, through reloads. (chromedp's
// own Poll compiles code inside the page, which the page's policy forbids.)
func (p *tab) await(condition string) {
	p.t.Helper()
	wait := `new Promise((ok) => { const look = () => { let is; try { is = ` + condition + ` } catch {} if (is) { ok(true); return true } }; if (!look()) { const i = setInterval(() => { if (look()) clearInterval(i) }, 20) } })`
	for {
		if ok, err := evaluate[bool](p, wait); err == nil && ok {
			return
		}
		if p.ctx.Err() != nil { // otherwise the page was reloaded meanwhile
			p.t.Fatalf("never true: %s; the page says %q", condition, p.said())
		}
	}
}

func (p *tab) awaitSaid(words string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`document.getElementById('said').textContent.includes(%q)`, words))
}

// awaitJournal waits until the journal shows entries in these states, newest first.
func (p *tab) awaitJournal(states ...string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`[...document.querySelectorAll('#journal li')].map((li) => li.dataset.state).join() === %q`, strings.Join(states, ",")))
}

func (p *tab) text(id string) string {
	p.t.Helper()
	got, err := chromedp.Run(p.ctx, chromedp.Text(chromedp.CSS("#"+id)))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(got)
}

// screenshot writes a picture when RETRYPROOF_TEST_SCREENSHOTS names a folder.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	folder := os.Getenv("RETRYPROOF_TEST_SCREENSHOTS")
	if folder == "" {
		return
	}
	data, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), data, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func dark() action {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
		})
		return err
	})
}
