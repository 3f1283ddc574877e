package emulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/psp/emulator"
)

// world is a company with everything around it that a test moves.
type world struct {
	t       *testing.T
	clock   *testClock
	journal *failingJournal
	mail    *mailbox
	core    *emulator.Core
	cfg     emulator.Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: newClock(), journal: &failingJournal{}, mail: &mailbox{}}
	w.cfg = emulator.Config{Clock: w.clock, Journal: w.journal, Deliverer: w.mail}
	w.restart()
	return w
}

// restart kills the company and starts it from its journal.
func (w *world) restart() {
	w.t.Helper()
	core, err := emulator.New(context.Background(), w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.core = core
}

func (w *world) faults(f ...emulator.Fault) {
	w.t.Helper()
	if err := w.core.AddFaults(f...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) do(r emulator.Request) emulator.Response {
	w.t.Helper()
	resp, err := w.core.Do(context.Background(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// failingJournal fails on demand, with or without having kept the record.
type failingJournal struct {
	emulator.MemoryJournal
	fail, keep bool
	onAppend   func()
}

func (j *failingJournal) Append(ctx context.Context, record []byte) error {
	if hook := j.onAppend; hook != nil {
		j.onAppend = nil
		hook()
	}
	if j.fail {
		if j.keep {
			_ = j.MemoryJournal.Append(ctx, record)
		}
		return errors.New("the disk is full")
	}
	return j.MemoryJournal.Append(ctx, record)
}

// mailbox receives webhooks and fails on demand.
type mailbox struct {
	got  []string
	fail int
}

func (m *mailbox) Deliver(_ context.Context, payload []byte, signature string) error {
	if m.fail > 0 {
		m.fail--
		return errors.New("the receiver is down")
	}
	var e struct{ Type string }
	if err := json.Unmarshal(payload, &e); err != nil || !strings.HasPrefix(signature, "t=") {
		return errors.New("not a signed event")
	}
	m.got = append(m.got, e.Type)
	return nil
}

func charge(key string, change ...string) emulator.Request {
	form := url.Values{
		"amount": {"3000"}, "currency": {"usd"}, "payment_method": {"pm_1"}, "confirm": {"true"}, "metadata[payment_id]": {"pay_7"},
	}
	for i := 0; i < len(change); i += 2 {
		form.Set(change[i], change[i+1])
	}
	return emulator.Request{Method: "POST", Path: "/v1/payment_intents", Key: key, Form: form}
}

func get(path string, params ...string) emulator.Request {
	form := url.Values{}
	for i := 0; i < len(params); i += 2 {
		form.Set(params[i], params[i+1])
	}
	return emulator.Request{Method: "GET", Path: path, Form: form}
}

// object is the part of any answer that the tests look at.
type object struct {
	ID, Status string
	Error      struct {
		Type, Code, Param, Message string
		DeclineCode                string                  `json:"decline_code"`
		PaymentIntent              struct{ Status string } `json:"payment_intent"`
	}
	Data     []struct{ ID string }
	HasMore  bool    `json:"has_more"`
	NextPage *string `json:"next_page"`
	Amount   int64
}

func read(t *testing.T, r emulator.Response) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(r.Body, &o); err != nil {
		t.Fatalf("body %q: %v", r.Body, err)
	}
	return o
}

func TestOneKeyChargesOnceAndAnswersTheSameBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.do(charge("k"))
	for range 3 {
		w.clock.advance(time.Hour)
		w.restart()
		again := w.do(charge("k"))
		if got, want := string(again.Body), string(first.Body); got != want || !again.Replayed || again.Status != 200 {
			t.Errorf("replay: got %v %s, want %s", again, got, want)
		}
	}
	if got, want := len(w.core.Charges()), 1; got != want {
		t.Errorf("charges: got %d, want %d", got, want)
	}
}

func TestRequestCountsTellReplaysApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.do(charge("k"))
	}
	w.do(charge("k", "amount", "1"))
	got := w.core.Charges()[0]
	if got.Requests != 4 || got.Replays != 2 || got.Key != "k" || got.Amount != 3000 || got.Reference != "pay_7" || !got.At.Equal(w.clock.Now()) {
		t.Errorf("got %+v, want 4 requests, 2 replays of k over 3000", got)
	}
}

func TestAKeyWithOtherParametersIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(charge("k"))
	for name, r := range map[string]emulator.Request{
		"amount":    charge("k", "amount", "3500"),
		"reference": charge("k", "metadata[payment_id]", "pay_8"),
		"broken":    charge("k", "amount", "none"),
		"endpoint":  {Method: "POST", Path: "/v1/refunds", Key: "k", Form: charge("k").Form},
	} {
		for range 2 {
			resp := w.do(r)
			if got, want := read(t, resp).Error.Type, "idempotency_error"; resp.Status != 400 || got != want {
				t.Errorf("%s: got %d %q, want 400 %q", name, resp.Status, got, want)
			}
		}
		w.restart()
	}
	if got, want := len(w.core.Charges()), 1; got != want {
		t.Errorf("charges: got %d, want %d", got, want)
	}
}

func TestASaved500ComesBackForItsKey(t *testing.T) {
	t.Parallel()
	for when, charges := range map[emulator.When]int{emulator.BeforeEffect: 0, emulator.AfterEffect: 1} {
		w := newWorld(t)
		w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.Error500, When: when})
		first := w.do(charge("k"))
		w.restart()
		again := w.do(charge("k"))
		if first.Status != 500 || again.Status != 500 || !again.Replayed || string(first.Body) != string(again.Body) {
			t.Errorf("%s: got %d then %d replayed %v, want the same 500 twice", when, first.Status, again.Status, again.Replayed)
		}
		if got := len(w.core.Charges()); got != charges {
			t.Errorf("%s: charges: got %d, want %d", when, got, charges)
		}
		found := read(t, w.do(get("/v1/payment_intents/search", "query", "metadata['payment_id']:'pay_7'")))
		if got := len(found.Data); got != charges {
			t.Errorf("%s: found %d by the reference, want %d", when, got, charges)
		}
	}
}

// case 7
func TestADeclineKeepsItsAnswerWhenFundsArrive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.do(charge("k1", "payment_method", "pm_insufficient_funds"))
	o := read(t, first)
	if first.Status != 402 || o.Error.Type != "card_error" || o.Error.DeclineCode != "insufficient_funds" || o.Error.PaymentIntent.Status != "requires_payment_method" {
		t.Fatalf("got %d %+v, want a card_error insufficient_funds", first.Status, o.Error)
	}
	if err := w.core.SetMethod(context.Background(), "pm_insufficient_funds", ""); err != nil {
		t.Fatal(err)
	}
	w.restart()
	again := w.do(charge("k1", "payment_method", "pm_insufficient_funds"))
	if got, want := string(again.Body), string(first.Body); got != want || again.Status != 402 {
		t.Errorf("k1 again: got %d %s, want %s", again.Status, got, want)
	}
	if got := w.do(charge("k2", "payment_method", "pm_insufficient_funds")).Status; got != 200 {
		t.Errorf("k2: got %d, want 200", got)
	}
	if got := len(w.core.Charges()); got != 1 {
		t.Errorf("charges: got %d, want 1", got)
	}
}

func TestAKeyIsForgottenExactlyWhenItsMemoryEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := read(t, w.do(charge("k")))
	w.clock.advance(24*time.Hour - time.Microsecond)
	w.restart()
	if resp := w.do(charge("k")); !resp.Replayed {
		t.Error("just before 24 h: not replayed")
	}
	w.clock.advance(time.Microsecond)
	w.restart()
	resp := w.do(charge("k"))
	if second := read(t, resp); resp.Replayed || second.ID == first.ID {
		t.Errorf("at 24 h: got %s replayed %v, want a new charge", second.ID, resp.Replayed)
	}
	if got := len(w.core.Charges()); got != 2 {
		t.Errorf("charges: got %d, want 2: they are remembered for ever", got)
	}
	found := read(t, w.do(get("/v1/payment_intents/search", "query", `metadata["payment_id"]:"pay_7"`)))
	if got := len(found.Data); got != 2 {
		t.Errorf("found %d, want 2", got)
	}
}

func TestARepeatDuringTheExecutionIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.Delay, By: time.Second})
	var same, other emulator.Response
	w.clock.onSleep = func() {
		same = w.do(charge("k"))
		other = w.do(charge("k", "amount", "1"))
	}
	first := w.do(charge("k"))
	if got := read(t, same).Error.Code; same.Status != 409 || got != "idempotency_key_in_use" {
		t.Errorf("same: got %d %s, want 409 idempotency_key_in_use", same.Status, got)
	}
	if got := read(t, other).Error.Type; other.Status != 400 || got != "idempotency_error" {
		t.Errorf("other parameters: got %d %s, want 400 idempotency_error", other.Status, got)
	}
	if again := w.do(charge("k")); first.Status != 200 || !again.Replayed {
		t.Errorf("got %d, then replayed %v; want 200, then a replay", first.Status, again.Replayed)
	}
}

// case 6
func TestRefusalsBeforeTheExecutionAreNotSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(emulator.Fault{Operation: emulator.OperationCharge, Do: emulator.RateLimited})
	if got := w.do(charge("k")).Status; got != 429 {
		t.Errorf("got %d, want 429", got)
	}
	if got := w.do(charge("k", "payment_method", "nonsense")).Status; got != 400 {
		t.Errorf("got %d, want 400", got)
	}
	if resp := w.do(charge("k")); resp.Status != 200 || resp.Replayed {
		t.Errorf("got %d replayed %v, want a fresh 200", resp.Status, resp.Replayed)
	}
}

func TestEveryParameterIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		change []string
		param  string
	}{
		{[]string{"amount", "0"}, "amount"},
		{[]string{"amount", "-1"}, "amount"},
		{[]string{"amount", "3e3"}, "amount"},
		{[]string{"amount", "+3000"}, "amount"},
		{[]string{"amount", "9223372036854775808"}, "amount"},
		{[]string{"currency", "dollars"}, "currency"},
		{[]string{"currency", "u$d"}, "currency"},
		{[]string{"payment_method", "pm_unknown"}, "payment_method"},
		{[]string{"payment_method", ""}, "payment_method"},
		{[]string{"confirm", "yes"}, "confirm"},
		{[]string{"surprise", "1"}, "surprise"},
		{[]string{"amount[0]", "1"}, "amount[0]"},
		{[]string{"metadata[a][b]", "1"}, "metadata[a][b]"},
		{[]string{"metadata", "1"}, "metadata"},
		{[]string{"metadata[x]", strings.Repeat("x", 501)}, "metadata[x]"},
		{[]string{"metadata[x]", "\xff"}, "metadata[x]"},
		{[]string{"expand[]", "customer"}, "expand"},
	} {
		resp := w.do(charge("", c.change...))
		if got := read(t, resp).Error; resp.Status != 400 || got.Param != c.param || got.Type != "invalid_request_error" {
			t.Errorf("%q: got %d %+v, want 400 about %s", c.change, resp.Status, got, c.param)
		}
	}
	if got := w.do(charge(strings.Repeat("k", 256))).Status; got != 400 {
		t.Errorf("a key of 256 bytes: got %d, want 400", got)
	}
	for _, r := range []emulator.Request{get("/v1/charges"), get("/v2/core"), get("/v1/payment_intents/"), {Method: "DELETE", Path: "/v1/payment_intents"}} {
		if resp := w.do(r); resp.Status != 404 || read(t, resp).Error.Type != "invalid_request_error" {
			t.Errorf("%s %s: got %d, want 404", r.Method, r.Path, resp.Status)
		}
	}
	if got := len(w.core.Charges()); got != 0 {
		t.Errorf("charges: got %d, want 0", got)
	}
}

func TestMethodsAnswerByTheirNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for method, want := range map[string]string{
		"pm_1": "", "pm_42": "", "pm_card_visa": "", "pm_card_mastercard": "",
		"pm_declined": "generic_decline", "pm_card_chargeDeclined": "generic_decline", "pm_insufficient_funds": "insufficient_funds",
		"pm_card_visa_chargeDeclinedInsufficientFunds": "insufficient_funds", "pm_card_chargeDeclinedExpiredCard": "expired_card",
	} {
		if got := read(t, w.do(charge("", "payment_method", method))).Error.DeclineCode; got != want {
			t.Errorf("%s: got %q, want %q", method, got, want)
		}
	}
}

func TestAHugeAmountIsExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(charge("a", "amount", "9007199254740993"))
	if got, want := w.core.Charges()[0].Amount, int64(9007199254740993); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	w.cfg.MaxAmount = 99_999_999
	w.restart()
	if got := read(t, w.do(charge("b", "amount", "100000000"))).Error.Code; got != "amount_too_large" {
		t.Errorf("got %q, want amount_too_large", got)
	}
}

func TestCreateThenConfirmChargesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	form := charge("").Form
	form.Del("confirm")
	made := read(t, w.do(emulator.Request{Method: "POST", Path: "/v1/payment_intents", Key: "make", Form: form}))
	if made.Status != "requires_confirmation" || len(w.core.Charges()) != 0 {
		t.Fatalf("got %s, want requires_confirmation and no charge", made.Status)
	}
	confirm := emulator.Request{Method: "POST", Path: "/v1/payment_intents/" + made.ID + "/confirm", Key: "confirm", Form: url.Values{}}
	for range 2 {
		if got := read(t, w.do(confirm)); got.Status != "succeeded" || got.ID != made.ID {
			t.Errorf("got %+v, want %s succeeded", got, made.ID)
		}
		w.restart()
	}
	confirm.Key = "again"
	if got := read(t, w.do(confirm)).Error.Code; got != "payment_intent_unexpected_state" {
		t.Errorf("got %q, want payment_intent_unexpected_state", got)
	}
	if got := w.core.Charges(); len(got) != 1 || got[0].Key != "confirm" {
		t.Errorf("got %+v, want one charge by the key confirm", got)
	}
}

// case 24
func TestRefundsNeverExceedTheCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	intent := read(t, w.do(charge("k"))).ID
	refund := func(key, amount string) emulator.Response {
		return w.do(emulator.Request{Method: "POST", Path: "/v1/refunds", Key: key, Form: url.Values{"payment_intent": {intent}, "amount": {amount}}})
	}
	var during emulator.Response
	w.journal.onAppend = func() { during = refund("k4", "2000") }
	if got := refund("k3", "2000").Status; got != 200 {
		t.Errorf("first: got %d, want 200", got)
	}
	if got := read(t, during).Error.Code; during.Status != 429 || got != "lock_timeout" {
		t.Errorf("at the same time: got %d %s, want 429 lock_timeout", during.Status, got)
	}
	if got := refund("k4", "2000").Status; got != 400 {
		t.Errorf("second: got %d, want 400", got)
	}
	w.restart()
	if resp := refund("k3", "2000"); resp.Status != 200 || !resp.Replayed {
		t.Errorf("retry of the first: got %d replayed %v, want its saved 200", resp.Status, resp.Replayed)
	}
	refund("k5", "1000")
	if got := read(t, refund("k6", "1")).Error.Code; got != "charge_already_refunded" {
		t.Errorf("got %q, want charge_already_refunded", got)
	}
	if got := w.core.Charges()[0].Refunded; got != 3000 {
		t.Errorf("refunded: got %d, want 3000", got)
	}
	if got := len(read(t, w.do(get("/v1/refunds", "payment_intent", intent))).Data); got != 2 {
		t.Errorf("refunds: got %d, want 2", got)
	}
}

func TestConfigRefusesWhatCannotWorkAndHidesItsSecret(t *testing.T) {
	t.Parallel()
	bad := emulator.Config{KeyMemory: -1, WebhookBatch: -1, MaxAmount: -1, WebhookBackoff: time.Hour, WebhookMaxBackoff: time.Second}
	err := bad.Validate()
	for _, want := range []string{"KeyMemory", "WebhookBatch", "MaxAmount", "WebhookBackoff <= WebhookMaxBackoff"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a word about %s", err, want)
		}
	}
	if _, err := emulator.New(context.Background(), bad); err == nil {
		t.Error("New took a bad configuration")
	}
	if got := (emulator.Config{WebhookSecret: "hush"}).String(); strings.Contains(got, "hush") {
		t.Errorf("got %s with the secret", got)
	}
}
