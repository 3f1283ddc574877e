package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/retryproof/retryproof/push"
	"github.com/retryproof/retryproof/push/emulator"
	"github.com/retryproof/retryproof/web"
)

// fakeAPI is as much of a payments API as the page needs: it charges once per
// caller and key, and remembers every send.
type fakeAPI struct {
	URL   string
	phone *emulator.Emulator

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced on every change
	sends    []sent
	asked    []sent // questions what became of a key
	cancels  []sent
	payments map[string]*payment // by caller and key
	order    []*payment
	held     chan struct{} // not nil: charges wait until it is closed
	pending  bool          // answer 202 and leave the payment PROCESSING
	faults   map[string]bool
}

type sent struct{ key, caller, body string }

type payment struct {
	id, caller, order, state, merchant string
	amount, refunded                   int64
	running                            bool
	requests, replayed                 int
}

func newAPI(t *testing.T) *fakeAPI {
	t.Helper()
	phone, err := emulator.New(t.Context(), emulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	a := &fakeAPI{phone: phone, changed: make(chan struct{}), payments: map[string]*payment{}, faults: map[string]bool{}}
	mux := http.NewServeMux()
	mux.Handle("/", web.Handler(web.Config{}))
	mux.Handle("GET /phone/screen", phone.ScreenHandler())
	mux.HandleFunc("GET /phone/faults", a.serveFaults)
	mux.HandleFunc("POST /phone/faults", a.serveFaults)
	mux.HandleFunc("POST /payments", a.pay)
	mux.HandleFunc("POST /payments/resolve", a.resolve)
	mux.HandleFunc("POST /payments/{id}/cancel", a.cancel)
	mux.HandleFunc("GET /payments/{id}/refunds", a.refunds)
	mux.HandleFunc("GET /payments/{id}", a.read)
	mux.HandleFunc("GET /payments/{id}/hops", a.hops)
	mux.HandleFunc("GET /merchants/{id}/balance", a.balance)
	mux.Handle("GET /js/journal.suite.js", http.StripPrefix("/js/", http.FileServer(http.Dir("../../js"))))
	s := httptest.NewServer(mux)
	a.URL = s.URL
	t.Cleanup(func() {
		a.release()
		s.CloseClientConnections()
		s.Close()
	})
	return a
}

// notify tells waiters that something changed; a.mu is held.
func (a *fakeAPI) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// until waits for a condition, which is asked with a.mu held.
func (a *fakeAPI) until(ctx context.Context, t *testing.T, what string, is func() bool) {
	t.Helper()
	for {
		a.mu.Lock()
		ok, changed := is(), a.changed
		a.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("it never came: %s", what)
		}
	}
}

// awaitSends waits until n sends arrived and returns all of them.
func (a *fakeAPI) awaitSends(ctx context.Context, t *testing.T, n int) []sent {
	t.Helper()
	var got []sent
	a.until(ctx, t, fmt.Sprintf("%d sends", n), func() bool {
		got = append([]sent(nil), a.sends...)
		return len(got) >= n
	})
	return got
}

func (a *fakeAPI) hold() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = make(chan struct{})
}

func (a *fakeAPI) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held != nil {
		close(a.held)
		a.held = nil
	}
}

func (a *fakeAPI) setPending(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = on
}

func (a *fakeAPI) charges() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.order)
}

// settle makes every open payment final.
func (a *fakeAPI) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.order {
		p.state = "SUCCEEDED"
	}
}

func caller(r *http.Request) string {
	return map[string]string{"Bearer demo-u1": "u1", "Bearer demo-u2": "u2"}[r.Header.Get("Authorization")]
}

func (a *fakeAPI) pay(w http.ResponseWriter, r *http.Request) {
	var in struct {
		OrderID       string `json:"order_id"`
		Amount        int64  `json:"amount"`
		Currency      string `json:"currency"`
		PaymentMethod string `json:"payment_method"`
		MerchantID    string `json:"merchant_id"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	who, key := caller(r), r.Header.Get("Idempotency-Key")
	if err := d.Decode(&in); err != nil || who == "" || key == "" || in.Currency != "USD" || in.PaymentMethod != "pm_1" {
		problem(w, 400, "invalid")
		return
	}
	a.mu.Lock()
	a.sends = append(a.sends, sent{key, who, fmt.Sprint(in)})
	a.notify()
	p := a.payments[who+":"+key]
	switch {
	case p == nil:
		p = &payment{id: "pay_3kf9a2r7mwx0c4te8hvq5n1bzd6yjgs0", caller: who, order: in.OrderID, amount: in.Amount, merchant: in.MerchantID, running: true, requests: 1}
		if len(a.order) > 0 {
			p.id += fmt.Sprint(len(a.order))
		}
		a.payments[who+":"+key] = p
		a.order = append(a.order, p)
	case p.state == "VOID":
		a.mu.Unlock()
		problem(w, 409, "void")
		return
	case p.running:
		p.requests++
		a.mu.Unlock()
		w.Header().Set("Retry-After", "1")
		problem(w, 409, "in-progress")
		return
	default:
		p.requests++
		p.replayed++
		state := p.state
		a.mu.Unlock()
		w.Header().Set("Idempotency-Replayed", "true")
		answer(w, p, state)
		return
	}
	held, pending := a.held, a.pending
	a.mu.Unlock()
	if held != nil {
		<-held
	}
	state := "SUCCEEDED"
	if pending {
		state = "PROCESSING"
	}
	a.mu.Lock()
	p.running, p.state = false, state
	a.mu.Unlock()
	n := push.Notification{To: who, ReplaceID: p.id, Title: "Payment received", Body: fmt.Sprintf("$%d.%02d for order %s", in.Amount/100, in.Amount%100, in.OrderID)}
	_ = a.phone.Send(context.WithoutCancel(r.Context()), n) // a memory-only emulator refuses nothing here
	answer(w, p, state)
}

func answer(w http.ResponseWriter, p *payment, state string) {
	status := 201
	if state == "PROCESSING" {
		status = 202
		w.Header().Set("Location", "/payments/"+p.id)
	}
	reply(w, status, map[string]any{"id": p.id, "state": state, "amount": p.amount, "currency": "USD", "order_id": p.order})
}

func (a *fakeAPI) find(w http.ResponseWriter, r *http.Request) (payment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.order {
		if p.id == r.PathValue("id") && p.caller == caller(r) {
			return *p, true
		}
	}
	problem(w, 404, "not-found")
	return payment{}, false
}

func (a *fakeAPI) read(w http.ResponseWriter, r *http.Request) {
	if p, ok := a.find(w, r); ok {
		body := map[string]any{"id": p.id, "state": p.state, "amount": p.amount, "currency": "USD"}
		if p.refunded > 0 {
			body["refunded"] = p.refunded
		}
		reply(w, 200, body)
	}
}

func (a *fakeAPI) hops(w http.ResponseWriter, r *http.Request) {
	p, ok := a.find(w, r)
	if !ok {
		return
	}
	hop := func(name, id, guard, memory string, saw map[string]int) map[string]any {
		return map[string]any{"hop": name, "id": id, "guard": guard, "memory": memory, "saw": saw}
	}
	reply(w, 200, map[string]any{"payment_id": p.id, "hops": []map[string]any{
		hop("phone", "key:4f7c2a9d", "journal", "until settled", nil),
		hop("key store", "scope_9d2v7k1m0q4x8r3w5t6y2z7b1c0f4g8h", "claim", "1 h after completion", map[string]int{"requests": p.requests, "replayed": p.replayed}),
		hop("ledger", p.id, "unique (caller, key)", "as long as the row", map[string]int{"rows": 1}),
		hop("PSP", p.id+":charge", "PSP key", "24 h", map[string]int{"calls": 1}),
		hop("queue", p.id+":SUCCEEDED", "dedup window", "300 s", map[string]int{"sends": 1}),
		hop("worker", p.id+":SUCCEEDED", "inbox row", "as long as the row", map[string]int{"deliveries": 1}),
		hop("push", p.id, "replace id", "on the screen", map[string]int{"alerts": 1}),
	}})
}

func (a *fakeAPI) balance(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	total := int64(12_000)
	for _, p := range a.order {
		if p.merchant == r.PathValue("id") && p.state == "SUCCEEDED" {
			total += p.amount
		}
	}
	a.mu.Unlock()
	reply(w, 200, map[string]any{"merchant_id": r.PathValue("id"), "currency": "USD", "balance": total})
}

func (a *fakeAPI) serveFaults(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.faultsOff(w) {
		return
	}
	if r.Method == http.MethodPost {
		var in map[string]bool
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			problem(w, 400, "invalid")
			return
		}
		a.faults = in
		a.notify()
	}
	reply(w, 200, map[string]bool{"lose_psp_reply": a.faults["lose_psp_reply"], "slow": a.faults["slow"]})
}

func problem(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "code": code}) // a reader that left is no error
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a reader that left is no error
}
