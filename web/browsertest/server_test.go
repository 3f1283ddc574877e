package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// binary is the real server, built once for all tests.
var binary struct {
	once   sync.Once
	folder string
	err    error
}

func buildServer(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.folder, binary.err = os.MkdirTemp("", "retryproof-server-"); binary.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", filepath.Join(binary.folder, "retryproof"), ".")
		build.Dir = "../../cmd/retryproof"
		if out, err := build.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return filepath.Join(binary.folder, "retryproof")
}

// server is one life after another of a real server, on one address and one folder.
type server struct {
	t       *testing.T
	URL     string
	listen  string
	data    string
	process *exec.Cmd
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, listen: "127.0.0.1:0", data: t.TempDir()}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start begins a life and waits until the server says that it is ready.
func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command(buildServer(s.t), "serve", "--listen", s.listen, "--data", s.data, "--log-level", "error")
	s.process.Stderr = os.Stderr
	out, err := s.process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("the server did not start: %v", err)
	}
	_, address, _ := strings.Cut(line, "http://")
	s.listen, _, _ = strings.Cut(address, " ")
	s.URL = "http://" + s.listen
}

// kill ends the life with SIGKILL: nothing is flushed, nobody is told.
func (s *server) kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait() // "signal: killed"
	s.process = nil
}

// get asks the server as buyer u1.
func get[T any](ctx context.Context, t *testing.T, s *server, path string) T {
	t.Helper()
	var got T
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer demo-u1")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", path, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

// await asks the server until a condition holds.
func await(ctx context.Context, t *testing.T, what string, is func() bool) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("it never came: %s", what)
		}
	}
}

// charges counts what the card processor's own book holds.
func (s *server) charges(ctx context.Context) int {
	s.t.Helper()
	return len(get[struct{ Charges []struct{ ID string } }](ctx, s.t, s, "/outside/psp/_emulator/charges").Charges)
}

// ended checks what n payments of $30.00 to m1 must leave behind: n charges, n
// credits on the opening balance, n notifications.
func (s *server) ended(ctx context.Context, n int) {
	s.t.Helper()
	type screen struct{ Shown int }
	await(ctx, s.t, fmt.Sprintf("%d notifications", n), func() bool { return get[screen](ctx, s.t, s, "/phone/screen?to=u1").Shown >= n })
	if got := get[screen](ctx, s.t, s, "/phone/screen?to=u1").Shown; got != n {
		s.t.Errorf("%d notifications are shown, want %d", got, n)
	}
	type balance struct{ Balance int }
	if got, want := get[balance](ctx, s.t, s, "/merchants/m1/balance").Balance, 12_000+3_000*n; got != want {
		s.t.Errorf("balance of m1 = %d, want %d", got, want)
	}
	if got := s.charges(ctx); got != n {
		s.t.Errorf("%d charges at the processor, want %d", got, n)
	}
}

// hopCount is what one hop saw of the payment that the page shows.
func (s *server) hopCount(p *tab, hop, what string) int {
	s.t.Helper()
	id := p.paymentID()
	type table struct {
		Hops []struct {
			Hop string
			Saw map[string]int
		}
	}
	for _, h := range get[table](p.ctx, s.t, s, "/payments/"+id+"/hops").Hops {
		if h.Hop == hop {
			return h.Saw[what]
		}
	}
	s.t.Fatalf("the hop table of %s has no %q", id, hop)
	return 0
}

// paymentID reads the payment's id off the page's hop table.
func (p *tab) paymentID() string {
	p.t.Helper()
	p.await(`document.querySelectorAll('#hops tbody tr').length > 0`)
	id, err := evaluate[string](p, `[...document.querySelectorAll('#hops tbody tr')].find((r) => r.cells[0].textContent === 'ledger').cells[1].textContent`)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}
