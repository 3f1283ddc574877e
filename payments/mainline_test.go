package payments_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/payments"
)

func TestOneTapIsOneChargeOneCreditOneNotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.send(ask{key: keyK1})
	want(t, first, http.StatusCreated, "")
	id := idOf("u1", keyK1)
	wantBody := fmt.Sprintf(`{"id":%q,"state":"SUCCEEDED","amount":3000,"currency":"USD","order_id":"42","merchant_id":"m1","payment_method":"pm_1"}`+"\n", id)
	if first.body != wantBody {
		t.Errorf("got %s, want %s", first.body, wantBody)
	}
	if got, want := first.header.Get("Location"), "/payments/"+string(id); got != want {
		t.Errorf("Location: got %q, want %q", got, want)
	}
	if got := first.header.Get(httpkey.HeaderReplayed); got != "" {
		t.Errorf("%s on a first answer: got %q, want none", httpkey.HeaderReplayed, got)
	}
	w.wantOutbox(1)
	w.wantBalance(12_000)
	w.deliver()
	w.wantBalance(15_000)
	w.wantOutbox(0)
	for range 3 {
		wantSame(t, w.send(ask{key: keyK1}), first)
		w.deliver()
	}
	w.wantCalls(1)
	w.wantCharges(1)
	w.wantBalance(15_000)
	w.wantScreen(1, 1)
	if got, want := w.phones.Screen("u1")[0].Body, "USD 30.00 for order 42"; got != want {
		t.Errorf("notification: got %q, want %q", got, want)
	}
	a := w.audit()
	if a.ByState[effect.Succeeded] != 1 || a.Credits != 1 || a.CreditSum != 3000 || a.SucceededSum != 3000 ||
		a.IntentsSent != 1 || a.IntentsPending != 0 || a.Unbalanced != 0 || a.WrongBalance != 0 || a.ClaimsInProgress != 0 {
		t.Errorf("the books do not agree: %+v", a)
	}
}

func TestAKeyMeansOneRequestOfOneBuyer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.send(ask{key: keyK1})
	want(t, first, http.StatusCreated, "")
	want(t, w.send(ask{key: keyK1, amount: 3500}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
	w.wantCalls(1)
	other := w.send(ask{key: keyK1, token: "t-u2", amount: 3500})
	want(t, other, http.StatusCreated, "")
	if other.header.Get("Location") == first.header.Get("Location") {
		t.Error("two buyers with one key share a payment")
	}
	wantSame(t, w.send(ask{key: keyK1}), first)
	w.wantCharges(2)
}

// case 16: a crowd of copies is one winner and no server error.
func TestFiftyCopiesAtOnceAreOneCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := make([]answer, 50)
	var copies sync.WaitGroup
	for i := range answers {
		copies.Go(func() { answers[i] = w.send(ask{key: keyK1}) })
	}
	copies.Wait()
	fresh := 0
	for _, a := range answers {
		switch {
		case a.status == http.StatusCreated && a.header.Get(httpkey.HeaderReplayed) == "":
			fresh++
		case a.status == http.StatusConflict && a.code == retryproof.CodeInProgress:
			if a.header.Get("Retry-After") == "" {
				t.Error("409 without Retry-After")
			}
		case a.status != http.StatusCreated:
			t.Errorf("got %d %s, want 201 or 409", a.status, a.body)
		}
	}
	if fresh != 1 {
		t.Errorf("first answers: got %d, want 1", fresh)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.deliver()
	w.wantCalls(1)
	w.wantCharges(1)
	w.wantBalance(15_000)
	w.wantScreen(1, 1)
}

// hopsOf reads a payment's hop table.
func hopsOf(t *testing.T, w *world, key string) map[string]payments.Hop {
	t.Helper()
	got := w.get("/payments/" + string(idOf("u1", key)) + "/hops")
	want(t, got, http.StatusOK, "")
	var table struct {
		PaymentID retryproof.ID `json:"payment_id"`
		State     string
		Hops      []payments.Hop
	}
	if err := json.Unmarshal([]byte(got.body), &table); err != nil {
		t.Fatal(err)
	}
	if table.PaymentID != idOf("u1", key) {
		t.Errorf("payment_id: got %s, want %s", table.PaymentID, idOf("u1", key))
	}
	byName := map[string]payments.Hop{"": {State: table.State}}
	for _, h := range table.Hops {
		byName[h.Hop] = h
		if h.ID == "" || h.Guard == "" || h.Memory == "" {
			t.Errorf("hop %q lacks its id, guard or memory: %+v", h.Hop, h)
		}
	}
	return byName
}

func TestTheHopTableCountsWhatEachHopSaw(t *testing.T) {
	t.Parallel()
	for _, askPSP := range []bool{false, true} {
		t.Run(fmt.Sprintf("HopsAskPSP=%v", askPSP), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(w *world) { w.config.HopsAskPSP = askPSP })
			want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
			want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
			want(t, w.send(ask{key: keyK1, amount: 3500}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
			w.deliver()
			for range 2 {
				for _, payload := range w.webhooks() {
					wantWebhook(t, w.post(payload), "late")
					wantWebhook(t, w.post(payload), "repeats dropped")
				}
			}
			if err := w.system.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			hops := hopsOf(t, w, keyK1)
			id := idOf("u1", keyK1)
			for _, c := range []struct {
				hop, what string
				want      int64
			}{
				{"payment API", "first requests", 1}, {"payment API", "repeats answered", 1}, {"payment API", "mismatches refused", 1},
				{"card processor", "calls", 1}, {"card processor", "charges", 1}, {"webhook", "late", 1}, {"webhook", "repeats dropped", 1},
				{"outbox relay", "sends", 1}, {"queue", "deliveries", 1}, {"worker", "credits", 1}, {"push provider", "sends", 1},
			} {
				if got := hops[c.hop].Saw[c.what]; got != c.want {
					t.Errorf("%s, %s: got %d, want %d", c.hop, c.what, got, c.want)
				}
			}
			for hop, want := range map[string]string{"card processor": id.Sub("charge"), "outbox relay": id.Sub("SUCCEEDED"), "queue": id.Sub("SUCCEEDED"), "push provider": string(id)} {
				if got := hops[hop].ID; got != want {
					t.Errorf("%s: id %q, want %q", hop, got, want)
				}
			}
			if got, want := hops["queue"].Memory, "5 min"; got != want {
				t.Errorf("the queue's memory: got %q, want %q", got, want)
			}
			if len(hops) != 11 || hops["ledger"].State != "SUCCEEDED" || hops["push provider"].State != "SENT" || hops[""].State != "SUCCEEDED" {
				t.Errorf("states: got %+v", hops)
			}
		})
	}
}

func TestReadersSeeTheirOwnPaymentsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.config.Merchants = []string{"m1"} })
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	path := "/payments/" + string(idOf("u1", keyK1))
	got := w.get(path)
	want(t, got, http.StatusOK, "")
	if !strings.Contains(got.body, `"state":"SUCCEEDED"`) || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %s %v", got.body, got.header)
	}
	resolve := ask{path: "/payments/resolve", key: keyK1, body: "{}"}
	want(t, w.send(resolve), http.StatusOK, "")
	resolve.key = ""
	want(t, w.send(resolve), http.StatusBadRequest, retryproof.CodeKeyMissing)
	for _, p := range []string{path, path + "/hops"} {
		want(t, w.send(ask{method: http.MethodGet, path: p, token: "t-u2"}), http.StatusNotFound, retryproof.CodeNotFound)
		want(t, w.send(ask{method: http.MethodGet, path: p, token: "nobody"}), http.StatusUnauthorized, retryproof.CodeUnauthorized)
	}
	want(t, w.get("/payments/pay_nothing"), http.StatusNotFound, retryproof.CodeNotFound)
	other := w.send(ask{path: "/payments/resolve", key: keyK1, token: "t-u2", body: "{}"}) // a key of their own
	want(t, other, http.StatusOK, "")
	if !strings.Contains(other.body, `"state":"VOID"`) || strings.Contains(other.body, string(idOf("u1", keyK1))) {
		t.Errorf("another caller with the same key: got %s, want a VOID of their own", other.body)
	}
	want(t, w.send(ask{path: "/payments/resolve", key: keyK1, token: "nobody", body: "{}"}), http.StatusUnauthorized, retryproof.CodeUnauthorized)

	for _, c := range []struct {
		path   string
		status int
		code   retryproof.Code
		body   string
	}{
		{"/merchants/m1/balance", 200, "", `"balance":12000`}, {"/merchants/m1/balance?currency=EUR", 200, "", `"balance":0`},
		{"/merchants/m1/balance?currency=usd", 400, retryproof.CodeInvalid, ""}, {"/merchants/m9/balance", 404, retryproof.CodeNotFound, ""},
		{"/healthz", 200, "", "ok"}, {"/readyz", 200, "", "ready"},
	} {
		got := w.get(c.path)
		want(t, got, c.status, c.code)
		if !strings.Contains(got.body, c.body) {
			t.Errorf("%s: got %s, want %s in it", c.path, got.body, c.body)
		}
	}
	want(t, w.send(ask{method: http.MethodGet, path: "/merchants/m1/balance", token: "nobody"}), http.StatusUnauthorized, retryproof.CodeUnauthorized)
	want(t, w.send(ask{key: keyK2, body: strings.Replace(order(1), "m1", "m9", 1)}), http.StatusBadRequest, retryproof.CodeInvalid)
}

func TestAMerchantOpensOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		if err := w.system.OpenMerchant(t.Context(), "m1", "USD", 12_000); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.system.OpenMerchant(t.Context(), "m1", "USD", 0); err != nil {
		t.Fatal(err)
	}
	w.wantBalance(12_000)
}
