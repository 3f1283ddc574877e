package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/psp/stripe"
)

func wantError(t *testing.T, what string, err error, outcome retryproof.Outcome, code retryproof.Code) {
	t.Helper()
	var e *retryproof.Error
	if !errors.As(err, &e) || e.Outcome != outcome || e.Code != code {
		t.Errorf("%s: got %v %q (%v), want %v %q", what, retryproof.OutcomeOf(err), retryproof.CodeOf(err), err, outcome, code)
	}
	for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		if strings.Contains(text, "do_not_tell") || strings.Contains(text, "_secret_") {
			t.Errorf("%s: the error shows a secret: %s", what, text)
		}
	}
}

func TestOneKeyIsOneChargeAcrossARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, err := w.adapter().Charge(context.Background(), request("k"))
	if err != nil || first.State != psp.Succeeded || first.Replayed || first.Reference != "pay_7" || first.Amount != 3000 || first.Currency != "USD" || !first.Created.Equal(w.clock.Now()) {
		t.Fatalf("got %+v %v, want a success", first, err)
	}
	w.restart()
	again, err := w.adapter().Charge(context.Background(), request("k"))
	first.Replayed = true
	if err != nil || again != first {
		t.Errorf("got %+v %v, want %+v", again, err, first)
	}
	back, err := w.adapter().Retrieve(context.Background(), first.ID)
	first.Replayed = false
	if err != nil || back != first {
		t.Errorf("got %+v %v, want %+v", back, err, first)
	}
}

func TestAfterALostReplyTheSameKeyGetsTheSameCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.LoseReply})
	c := w.adapter()
	_, err := c.Charge(context.Background(), request("k"))
	wantError(t, "lost reply", err, retryproof.Unknown, stripe.CodeNoAnswer)
	w.restart()
	got, err := c.Charge(context.Background(), request("k"))
	if err != nil || !got.Replayed || len(w.charges()) != 1 || got.ID != w.charges()[0].Intent {
		t.Errorf("got %+v %v and %d charges, want the one charge", got, err, len(w.charges()))
	}
}

func TestAnAPIBelowAPathIsCalledAndItsAnswersAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, sent string }{
		{"", "/v1/"}, {"/", "/v1/"}, {"/v1", "/v1/"},
		{"/outside/psp", "/outside/psp/v1/"}, {"/outside/psp/", "/outside/psp/v1/"}, {"/outside/psp/v1/", "/outside/psp/v1/"},
		{"/a%20b", "/a%20b/v1/"},
	} {
		w := newWorld(t)
		front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.EscapedPath(), c.sent) {
				t.Errorf("%s: got a request of %s, want it below %s", c.base, r.URL.EscapedPath(), c.sent)
			}
			r.URL = &url.URL{Path: strings.TrimPrefix(r.URL.EscapedPath(), strings.TrimSuffix(c.sent, "/v1/")), RawQuery: r.URL.RawQuery}
			w.handler.ServeHTTP(rw, r)
		}))
		t.Cleanup(front.Close)
		client, err := stripe.New(stripe.Config{BaseURL: front.URL + c.base, APIKey: apiKey})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		got, err := client.Charge(ctx, request("k"))
		if err != nil || got.State != psp.Succeeded {
			t.Errorf("%s: a charge: got %+v %v, want a success", c.base, got, err)
		}
		if back, err := client.Retrieve(ctx, got.ID); err != nil || back.ID != got.ID {
			t.Errorf("%s: a lookup: got %+v %v", c.base, back, err)
		}
		declined := request("k2")
		declined.Method = "pm_declined"
		if got, err := client.Charge(ctx, declined); err != nil || got.State != psp.Declined {
			t.Errorf("%s: a decline: got %+v %v", c.base, got, err)
		}
		if found, err := client.Find(ctx, "pay_7"); err != nil || len(found) != 2 {
			t.Errorf("%s: a search: got %d %v, want 2", c.base, len(found), err)
		}
	}
}

func TestAPaymentOfAnotherReferenceIsNotFound(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"search_result","data":[
			{"id":"pi_1","status":"succeeded","metadata":{"payment_id":"PAY_7"}},
			{"id":"pi_2","status":"succeeded","metadata":{"payment_id":"pay_7"}},
			{"id":"pi_3","status":"succeeded"}]}`)
	}))
	t.Cleanup(s.Close)
	client, err := stripe.New(stripe.Config{BaseURL: s.URL, APIKey: apiKey})
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Find(context.Background(), "pay_7")
	if err != nil || len(got) != 1 || got[0].ID != "pi_2" {
		t.Errorf("got %+v %v, want pi_2 alone", got, err)
	}
}

// case 27
func TestNothingBelowSendsARequestTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.adapter()
	// A first call leaves a connection open: net/http repeats on reused ones only.
	if _, err := c.Charge(context.Background(), request("warm")); err != nil {
		t.Fatal(err)
	}
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.LoseReply})
	_, err := c.Charge(context.Background(), request("k"))
	wantError(t, "cut on a reused connection", err, retryproof.Unknown, stripe.CodeNoAnswer)
	if got := w.charges()[1].Requests; got != 1 {
		t.Errorf("requests with the key: got %d, want 1", got)
	}
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.Error500})
	_, err = c.Charge(context.Background(), request("k5"))
	wantError(t, "500", err, retryproof.Unknown, retryproof.CodeUnknown)
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.RateLimited})
	_, err = c.Charge(context.Background(), request("k6"))
	wantError(t, "429", err, retryproof.NotDone, retryproof.CodeTooMany)
	if got := len(w.core.Faults()); got != 0 {
		t.Errorf("faults left: got %d, want 0", got)
	}
}

// case 7
func TestADeclineIsAnAnswerAndStaysOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := request("k1")
	r.Method = "pm_insufficient_funds"
	first, err := w.adapter().Charge(context.Background(), r)
	if err != nil || first.State != psp.Declined || first.DeclineCode != "insufficient_funds" || first.ID == "" || first.Replayed {
		t.Fatalf("got %+v %v, want declined: insufficient_funds", first, err)
	}
	if err := w.core.SetMethod(context.Background(), r.Method, ""); err != nil {
		t.Fatal(err)
	}
	w.restart()
	again, err := w.adapter().Charge(context.Background(), r)
	first.Replayed = true
	if err != nil || again != first {
		t.Errorf("k1 again: got %+v %v, want %+v", again, err, first)
	}
	found, err := w.adapter().Find(context.Background(), "pay_7")
	if err != nil || len(found) != 1 || found[0].State != psp.Declined {
		t.Errorf("found %+v %v, want the decline", found, err)
	}
	r.Key = "k2"
	if got, err := w.adapter().Charge(context.Background(), r); err != nil || got.State != psp.Succeeded {
		t.Errorf("k2: got %+v %v, want a success", got, err)
	}
	if got := len(w.charges()); got != 1 {
		t.Errorf("charges: got %d, want 1", got)
	}
}

func TestASaved500IsSettledByLookingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.Error500, When: emulator.AfterEffect})
	c := w.adapter()
	for range 2 {
		_, err := c.Charge(context.Background(), request("k"))
		wantError(t, "500", err, retryproof.Unknown, retryproof.CodeUnknown)
		w.restart()
	}
	found, err := c.Find(context.Background(), "pay_7")
	if err != nil || len(found) != 1 || found[0].State != psp.Succeeded {
		t.Errorf("got %+v %v, want the charge", found, err)
	}
}

func TestAForgottenKeyChargesAgainAndFindSeesBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.adapter()
	first, err := c.Charge(context.Background(), request("k"))
	if err != nil {
		t.Fatal(err)
	}
	w.clock.advance(24 * time.Hour)
	w.restart()
	second, err := c.Charge(context.Background(), request("k"))
	if err != nil || second.Replayed || second.ID == first.ID {
		t.Errorf("got %+v %v, want a new charge: the key is forgotten", second, err)
	}
	found, err := c.Find(context.Background(), "pay_7")
	if err != nil || len(found) != 2 || found[1].ID != first.ID {
		t.Errorf("got %+v %v, want both, newest first", found, err)
	}
}

func TestOtherParametersAndAKeyInUseAreUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.adapter()
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.Delay, By: time.Second})
	var during error
	w.clock.onSleep = func() { _, during = c.Charge(context.Background(), request("k")) }
	if _, err := c.Charge(context.Background(), request("k")); err != nil {
		t.Fatal(err)
	}
	wantError(t, "in use", during, retryproof.Unknown, retryproof.CodeInProgress)
	r := request("k")
	r.Amount = 3500
	_, err := c.Charge(context.Background(), r)
	wantError(t, "other amount", err, retryproof.Unknown, retryproof.CodeKeyReused)
	if got := len(w.charges()); got != 1 {
		t.Errorf("charges: got %d, want 1", got)
	}
}

func TestNotDoneIsSaidOnlyWhenNothingWasSent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	_ = l.Close()
	for what, address := range map[string]string{"refused": closed, "no such host": "http://psp.invalid"} {
		c, err := stripe.New(stripe.Config{BaseURL: address, APIKey: apiKey})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Charge(context.Background(), request("k"))
		wantError(t, what, err, retryproof.NotDone, retryproof.CodeUnavailable)
		_, err = c.Retrieve(context.Background(), "pi_1")
		wantError(t, what+", lookup", err, retryproof.Unknown, retryproof.CodeUnavailable)
	}
	w := newWorld(t)
	dead, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("shutting down"))
	_, err = w.adapter().Charge(dead, request("k"))
	wantError(t, "dead context", err, retryproof.NotDone, retryproof.CodeTooLate)
	for what, change := range map[string]func(*psp.ChargeRequest){
		"no key":       func(r *psp.ChargeRequest) { r.Key = "" },
		"long key":     func(r *psp.ChargeRequest) { r.Key = strings.Repeat("k", 256) },
		"blank key":    func(r *psp.ChargeRequest) { r.Key = " k" },
		"control key":  func(r *psp.ChargeRequest) { r.Key = "k\nk" },
		"no reference": func(r *psp.ChargeRequest) { r.Reference = "" },
		"no amount":    func(r *psp.ChargeRequest) { r.Amount = 0 },
		"no currency":  func(r *psp.ChargeRequest) { r.Currency = "" },
		"no method":    func(r *psp.ChargeRequest) { r.Method = "" },
		"bad method":   func(r *psp.ChargeRequest) { r.Method = "nonsense" },
	} {
		r := request("k")
		change(&r)
		_, err := w.adapter().Charge(context.Background(), r)
		wantError(t, what, err, retryproof.NotDone, retryproof.CodeInvalid)
	}
	if got := len(w.charges()); got != 0 {
		t.Errorf("charges: got %d, want 0", got)
	}
}

func TestTheDeadlinesCauseIsTold(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a hang-up behind the body only
		close(arrived)
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	c, err := stripe.New(stripe.Config{BaseURL: s.URL, APIKey: apiKey})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	late := errors.New("the deadline of the payment")
	go func() { <-arrived; cancel(late) }()
	_, err = c.Charge(ctx, request("k"))
	wantError(t, "deadline", err, retryproof.Unknown, stripe.CodeNoAnswer)
	if !errors.Is(err, late) {
		t.Errorf("got %v, want the cause %v in it", err, late)
	}
}

func TestEveryAnswerIsClassified(t *testing.T) {
	t.Parallel()
	problem := func(kind, code string) string {
		return `{"error":{"type":"` + kind + `","code":"` + code + `","message":"m","payment_intent":{"id":"pi_1","client_secret":"pi_1_secret_x"}}}`
	}
	for _, c := range []struct {
		status  int
		body    string
		outcome retryproof.Outcome
		code    retryproof.Code
	}{
		{400, problem("invalid_request_error", "parameter_missing"), retryproof.NotDone, retryproof.CodeInvalid},
		{400, problem("something_new", ""), retryproof.Unknown, retryproof.CodeUnknown},
		{401, problem("invalid_request_error", ""), retryproof.NotDone, retryproof.CodeUnauthorized},
		{402, problem("invalid_request_error", ""), retryproof.Unknown, retryproof.CodeUnknown},
		{403, problem("invalid_request_error", ""), retryproof.NotDone, retryproof.CodeForbidden},
		{404, problem("invalid_request_error", "resource_missing"), retryproof.NotDone, retryproof.CodeNotFound},
		{409, problem("idempotency_error", "idempotency_key_in_use"), retryproof.Unknown, retryproof.CodeInProgress},
		{409, problem("invalid_request_error", ""), retryproof.Unknown, retryproof.CodeUnknown},
		{429, problem("invalid_request_error", "rate_limit"), retryproof.NotDone, retryproof.CodeTooMany},
		{429, problem("invalid_request_error", "lock_timeout"), retryproof.Unknown, retryproof.CodeConflict},
		{500, problem("api_error", ""), retryproof.Unknown, retryproof.CodeUnknown},
		{503, "<html>pi_1_secret_x busy</html>", retryproof.Unknown, stripe.CodeNoAnswer},
		{307, "", retryproof.Unknown, stripe.CodeNoAnswer},
		{200, `{"id":"pi_1","client_secret":"pi_1_secret_x`, retryproof.Unknown, stripe.CodeNoAnswer},
	} {
		var sends atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			sends.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		client, err := stripe.New(stripe.Config{BaseURL: s.URL, APIKey: apiKey})
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%d %.60s", c.status, c.body)
		_, err = client.Charge(context.Background(), request("k"))
		wantError(t, what, err, c.outcome, c.code)
		var e *retryproof.Error
		if errors.As(err, &e); c.status == 429 && e.RetryAfter != 7*time.Second {
			t.Errorf("%s: retry after: got %s, want 7s", what, e.RetryAfter)
		}
		if got := sends.Load(); got != 1 {
			t.Errorf("%s: sends: got %d, want 1", what, got)
		}
		_, err = client.Find(context.Background(), "pay_7")
		if retryproof.OutcomeOf(err) != retryproof.Unknown {
			t.Errorf("%s: a lookup: got %v, want Unknown", what, err)
		}
		s.Close()
	}
}

func TestThePaymentIntentInsideADeclineHasTheLastWord(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]psp.State{
		"requires_payment_method": psp.Declined, "requires_action": psp.Declined, "canceled": psp.Declined,
		"processing": psp.Processing, "requires_capture": psp.Processing, "succeeded": psp.Succeeded,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = fmt.Fprintf(w, `{"error":{"type":"card_error","code":"card_declined","decline_code":"lost_card","payment_intent":{"id":"pi_1","status":%q}}}`, status)
		}))
		c, err := stripe.New(stripe.Config{BaseURL: s.URL, APIKey: apiKey})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Charge(context.Background(), request("k")); err != nil || got.State != want || got.ID != "pi_1" {
			t.Errorf("%s: got %+v %v, want %s", status, got, err, want)
		}
		s.Close()
	}
}

func TestConfigNamesEveryProblemAndNoSecret(t *testing.T) {
	t.Parallel()
	for what, cfg := range map[string]stripe.Config{
		"APIKey is empty": {},
		"a blank":         {APIKey: "sk_test x"},
		"Tolerance":       {APIKey: apiKey, Tolerance: -1},
		"http or https":   {APIKey: apiKey, BaseURL: "ftp://x"},
		"no user":         {APIKey: apiKey, BaseURL: "https://u:p@x"},
		"needs https":     {APIKey: "sk_live_do_not_tell", BaseURL: "http://x"},
	} {
		_, err := stripe.New(cfg)
		if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "do_not_tell") {
			t.Errorf("got %v, want a word about %q and no secret", err, what)
		}
	}
	cfg := stripe.Config{APIKey: apiKey, WebhookSecret: webhookSecret}
	c, err := stripe.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg), fmt.Sprintf("%v %+v %#v", c, c, c), cfg.LogValue().String()} {
		if strings.Contains(text, "do_not_tell") {
			t.Errorf("a secret is printed: %s", text)
		}
	}
}
