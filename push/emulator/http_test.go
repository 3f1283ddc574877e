package emulator_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/push"
	"github.com/retryproof/retryproof/push/emulator"
)

func serve(t *testing.T, e *emulator.Emulator) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(e.Handler())
	t.Cleanup(s.Close)
	return s
}

func call(t *testing.T, method, url, body string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data), response.Header
}

func TestTheScreenOverHTTP(t *testing.T) {
	t.Parallel()
	e := open(t, emulator.Config{})
	s := serve(t, e)
	if status, body, _ := call(t, "GET", s.URL+"/screen/u1", ""); status != 200 || !strings.Contains(body, `"notifications":[]`) {
		t.Errorf("empty screen: %d %s", status, body)
	}
	for range 2 {
		if status, body, _ := call(t, "POST", s.URL+"/send", `{"to":"u1","replace_id":"pay_7","title":"Paid","body":"$30.00"}`); status != 204 {
			t.Fatalf("send: %d %s", status, body)
		}
	}
	for _, url := range []string{s.URL + "/screen/u1", httptestScreen(t, e) + "?to=u1"} {
		_, body, header := call(t, "GET", url, "")
		var got struct {
			To            string
			Shown, Alerts int
			Notifications []struct {
				Title, Body string
				ReplaceID   string `json:"replace_id"`
				At          time.Time
				Alerts      int
			}
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if got.To != "u1" || got.Shown != 1 || got.Alerts != 2 || got.Notifications[0].ReplaceID != "pay_7" || got.Notifications[0].Alerts != 2 || got.Notifications[0].At.IsZero() {
			t.Errorf("screen = %s", body)
		}
		if header.Get("Cache-Control") != "no-store" {
			t.Errorf("the screen may be cached: %v", header)
		}
	}
	if _, body, _ := call(t, "GET", s.URL+"/totals", ""); body != `{"alerts":2,"shown":1}`+"\n" {
		t.Errorf("totals = %s", body)
	}
}

func httptestScreen(t *testing.T, e *emulator.Emulator) string {
	t.Helper()
	s := httptest.NewServer(e.ScreenHandler())
	t.Cleanup(s.Close)
	return s.URL
}

func TestNoContentTypeIsNeeded(t *testing.T) {
	t.Parallel()
	e := open(t, emulator.Config{})
	s := serve(t, e)
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/send", strings.NewReader(`{"to":"u1","title":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := e.Totals(); response.StatusCode != 204 || got.Alerts != 1 {
		t.Errorf("got %d and %+v, want 204 and one alert", response.StatusCode, got)
	}
}

func TestBadRequestsGetAProblemAndShowNothing(t *testing.T) {
	t.Parallel()
	e := open(t, emulator.Config{})
	s := serve(t, e)
	for _, c := range []struct {
		body   string
		status int
		code   retryproof.Code
	}{
		{`{"to":"u1","title":"x","extra":1}`, 400, retryproof.CodeInvalid},
		{`{"to":"u1","title":"x"} {}`, 400, retryproof.CodeInvalid},
		{`{"to":1}`, 400, retryproof.CodeInvalid},
		{`{"title":"x"}`, 400, retryproof.CodeInvalid},
		{`[`, 400, retryproof.CodeInvalid},
		{`null`, 400, retryproof.CodeInvalid},
		{`{"to":"` + strings.Repeat("u", 20<<10) + `"}`, 413, retryproof.CodeTooLarge},
		{`{"to":"u1","title":"x"}` + strings.Repeat(" ", 20<<10), 413, retryproof.CodeTooLarge},
	} {
		status, body, header := call(t, "POST", s.URL+"/send", c.body)
		var problem struct{ Code retryproof.Code }
		if err := json.Unmarshal([]byte(body), &problem); err != nil {
			t.Fatal(err)
		}
		if status != c.status || problem.Code != c.code || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.60s: %d %s, want %d %s", c.body, status, body, c.status, c.code)
		}
	}
	if got := e.Totals(); got.Alerts != 0 {
		t.Errorf("totals = %+v, want none", got)
	}
	if status, _, _ := call(t, "GET", httptestScreen(t, e), ""); status != 400 {
		t.Errorf("screen of nobody: %d, want 400", status)
	}
	if status, _, _ := call(t, "POST", httptestScreen(t, e)+"?to=u1", ""); status != 405 {
		t.Errorf("POST on a screen: %d, want 405", status)
	}
}

func TestTheFaultScriptOverHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, open(t, emulator.Config{}))
	url := s.URL + "/_emulator/faults"
	if status, body, _ := call(t, "POST", url, `{"kind":"delay","next":2,"delay_ms":1500,"to":"u1"}`); status != 201 {
		t.Fatalf("add: %d %s", status, body)
	}
	want := `{"faults":[{"kind":"delay","next":2,"delay_ms":1500,"to":"u1"}]}` + "\n"
	if _, got, _ := call(t, "GET", url, ""); got != want {
		t.Errorf("faults = %s, want %s", got, want)
	}
	for _, bad := range []string{`{"kind":"explode"}`, `{"kind":"delay"}`, `{"kind":"delay","delay_ms":9223372036854775807}`, `{"kind":"refuse","next":-1}`, `{"knd":"refuse"}`} {
		if status, body, _ := call(t, "POST", url, bad); status != 400 {
			t.Errorf("%s: %d %s, want 400", bad, status, body)
		}
	}
	if status, _, _ := call(t, "DELETE", url, ""); status != 204 {
		t.Errorf("clear: %d, want 204", status)
	}
	if _, got, _ := call(t, "GET", url, ""); got != `{"faults":[]}`+"\n" {
		t.Errorf("faults = %s, want none", got)
	}
}

func TestClientSaysWhatItKnows(t *testing.T) {
	t.Parallel()
	e := open(t, emulator.Config{})
	s := serve(t, e)
	client := &emulator.Client{BaseURL: s.URL + "/"}
	script := func(kind emulator.FaultKind) func() {
		return func() {
			if err := e.AddFault(emulator.Fault{Kind: kind}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		before func()
		want   retryproof.Outcome
		alerts int64
	}{
		{"accepted", func() {}, retryproof.Done, 1},
		{"reply lost", script(emulator.FaultLoseReply), retryproof.Unknown, 2},
		{"refused", script(emulator.FaultRefuse), retryproof.NotDone, 2},
		{"accepted again", func() {}, retryproof.Done, 3},
	} {
		c.before()
		err := client.Send(t.Context(), note("pay_7", "x"))
		if got := retryproof.OutcomeOf(err); got != c.want || e.Totals().Alerts != c.alerts {
			t.Errorf("%s: %v (%v) with %d alerts, want %v with %d", c.name, got, err, e.Totals().Alerts, c.want, c.alerts)
		}
		if c.name == "refused" {
			if re := new(retryproof.Error); !asError(err, &re) || re.RetryAfter != time.Second || re.Code != retryproof.CodeUnavailable {
				t.Errorf("refusal = %#v, want unavailable with a RetryAfter of 1 s", err)
			}
		}
	}
	s.Close()
	if err := client.Send(t.Context(), note("pay_7", "x")); retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("nobody listens: %v, want NotDone", err)
	}
}

func asError(err error, into **retryproof.Error) bool {
	e, ok := err.(*retryproof.Error)
	*into = e
	return ok
}

func TestClientClassifiesAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		want   retryproof.Outcome
		code   retryproof.Code
	}{
		{200, "", retryproof.Done, ""},
		{307, "", retryproof.Unknown, retryproof.CodeUnknown},
		{400, `{"code":"invalid"}`, retryproof.NotDone, retryproof.CodeInvalid},
		{400, "", retryproof.NotDone, retryproof.CodePermanent},
		{401, `{"code":"permanent"}`, retryproof.NotDone, retryproof.CodeUnavailable},
		{403, "", retryproof.NotDone, retryproof.CodeUnavailable},
		{404, "no such page", retryproof.NotDone, retryproof.CodeUnavailable},
		{410, "", retryproof.NotDone, retryproof.CodePermanent},
		{413, "", retryproof.NotDone, retryproof.CodePermanent},
		{422, `{"code":"invalid"}`, retryproof.NotDone, retryproof.CodeInvalid},
		{408, "", retryproof.Unknown, retryproof.CodeUnknown},
		{429, "", retryproof.NotDone, retryproof.CodeTooMany},
		{500, `{"code":"unknown"}`, retryproof.Unknown, retryproof.CodeUnknown},
		{502, "", retryproof.Unknown, retryproof.CodeUnknown},
		{503, "", retryproof.Unknown, retryproof.CodeUnknown},
		{503, `{"code":"unavailable"}`, retryproof.NotDone, retryproof.CodeUnavailable},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/send")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := (&emulator.Client{BaseURL: s.URL}).Send(t.Context(), note("pay_7", "x"))
		s.Close()
		if got := retryproof.OutcomeOf(err); got != c.want || retryproof.CodeOf(err) != c.code {
			t.Errorf("%d %s: %v %s, want %v %s", c.status, c.body, got, retryproof.CodeOf(err), c.want, c.code)
		}
	}
	for _, url := range []string{"", "ftp://x", "http://", "://"} {
		if err := (&emulator.Client{BaseURL: url}).Send(t.Context(), push.Notification{To: "u1", Title: "x"}); retryproof.OutcomeOf(err) != retryproof.NotDone {
			t.Errorf("base URL %q: %v, want NotDone", url, err)
		}
	}
}

func TestASendThatEndsAfterItLeftIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-release
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	client := &emulator.Client{BaseURL: s.URL}
	if err := client.Send(ctx, note("pay_7", "x")); err == nil || retryproof.OutcomeOf(err) != retryproof.Unknown {
		t.Errorf("left during the send: %v, want Unknown", err)
	}
	if err := client.Send(ctx, note("pay_7", "x")); retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("left before the send: %v, want NotDone", err)
	}
}

func FuzzHandler(f *testing.F) {
	f.Add([]byte(`{"to":"u1","replace_id":"pay_7","title":"Paid","body":"x"}`))
	f.Add([]byte(`{"kind":"refuse"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e := open(t, emulator.Config{})
		for _, path := range []string{"/send", "/_emulator/faults"} {
			r := httptest.NewRequest("POST", path, strings.NewReader(string(body)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			e.Handler().ServeHTTP(w, r)
			if w.Code >= 500 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}
