package httpkey_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

func TestReplayNeverRunsTheHandlerAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, ok(`{"id":"pay_7"}`))
	first := w.send(ask{key: "K1"})
	second := w.send(ask{key: "K1"})
	if got, want := bodyOf(t, second), bodyOf(t, first); got != want {
		t.Errorf("body: got %q, want %q", got, want)
	}
	if got := first.Header.Get(httpkey.HeaderReplayed); got != "" {
		t.Errorf("the first answer is marked as replayed: %q", got)
	}
	if got := second.Header.Get(httpkey.HeaderReplayed); got != "true" {
		t.Errorf("%s: got %q, want true", httpkey.HeaderReplayed, got)
	}
	want := start.Add(24 * time.Hour).Format(http.TimeFormat)
	for _, resp := range []*http.Response{first, second} {
		if got := resp.Header.Get(httpkey.HeaderExpires); got != want {
			t.Errorf("%s: got %q, want %q", httpkey.HeaderExpires, got, want)
		}
	}
	w.wantRuns(1)
}

// case 1
func TestLargeAnswerIsDoneAlthoughItsBodyIsNotKept(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 8<<20)
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Location", "/payments/7")
		rw.Header().Set("Etag", `"big"`)
		rw.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(rw, big)
	})
	first := w.send(ask{key: "K1"})
	if got := bodyOf(t, first); first.StatusCode != http.StatusCreated || got != big {
		t.Errorf("first: got %d with %d bytes, want 201 with %d", first.StatusCode, len(got), len(big))
	}
	for _, after := range []time.Duration{time.Second, 25 * time.Hour} { // the record, then the guard alone
		w.clock.Advance(after)
		resp := w.send(ask{key: "K1"})
		if resp.StatusCode != http.StatusCreated || resp.Header.Get(httpkey.HeaderBody) != "not-kept" {
			t.Errorf("after %v: got %d, %s %q, want 201, not-kept", after, resp.StatusCode, httpkey.HeaderBody, resp.Header.Get(httpkey.HeaderBody))
		}
		if got := resp.Header.Get("Location"); got != "/payments/7" {
			t.Errorf("after %v: Location: got %q", after, got)
		}
		if got := resp.Header.Get("Etag"); got != "" {
			t.Errorf("after %v: the Etag of another body was replayed: %q", after, got)
		}
		var body struct{ ID, State, Body string }
		if err := json.Unmarshal([]byte(bodyOf(t, resp)), &body); err != nil {
			t.Fatal(err)
		}
		if want := string(retryproof.Of("effect", scopeOf("POST /payments", "u1", "K1"))); body.ID != want || body.State != "SUCCEEDED" || body.Body != "not-kept" {
			t.Errorf("after %v: got %+v, want id %s", after, body, want)
		}
	}
	w.wantRuns(1)
}

// case 2
func TestReplayKeepsHeadersAsTheyWere(t *testing.T) {
	t.Parallel()
	const text = "the body, which was packed"
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		h := rw.Header()
		h.Set("Location", "/payments/7")
		h.Add("Link", `</a>; rel="next", </x>; rel="x"`)
		h.Add("Link", `</b>; rel="prev"`)
		h.Set("Content-Disposition", `attachment; filename="a,b.txt"`)
		h.Set("Set-Cookie", "sid=secret; Expires=Wed, 04 Mar 2026 05:06:07 GMT")
		h.Set("WWW-Authenticate", "Basic")
		h.Set("Date", "Mon, 02 Mar 2026 00:00:00 GMT")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Content-Type", "text/plain")
		h.Set("Content-Encoding", "gzip")
		h.Set("Etag", `"v1"`)
		rw.WriteHeader(http.StatusCreated)
		z := gzip.NewWriter(rw)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
	})
	w.send(ask{key: "K1"})
	packed := w.send(ask{key: "K1", header: http.Header{"Accept-Encoding": {"br, gzip;q=0.5"}}})
	plain := w.send(ask{key: "K1"})
	for _, resp := range []*http.Response{packed, plain} {
		if got, want := resp.StatusCode, http.StatusCreated; got != want {
			t.Errorf("status: got %d, want %d", got, want)
		}
		if got, want := resp.Header["Link"], []string{`</a>; rel="next", </x>; rel="x"`, `</b>; rel="prev"`}; !slices.Equal(got, want) {
			t.Errorf("Link: got %q, want %q", got, want)
		}
		if got, want := resp.Header.Get("Content-Disposition"), `attachment; filename="a,b.txt"`; got != want {
			t.Errorf("Content-Disposition: got %q, want %q", got, want)
		}
		if got := resp.Header.Get("Location"); got != "/payments/7" {
			t.Errorf("Location: got %q", got)
		}
		for _, name := range []string{"Set-Cookie", "WWW-Authenticate", "Date", "Connection", "X-Hop"} {
			if got := resp.Header.Values(name); len(got) > 0 {
				t.Errorf("%s was replayed: %q", name, got)
			}
		}
	}
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || string(got) != text {
		t.Errorf("packed: got %q %v, want %q", got, err, text)
	}
	if got := bodyOf(t, plain); got != text {
		t.Errorf("plain: got %q, want %q", got, text)
	}
	if got := plain.Header.Get("Content-Encoding") + plain.Header.Get("Etag") + plain.Header.Get("Vary"); got != `W/"v1"Accept-Encoding` {
		t.Errorf("plain: got headers %q", got)
	}
	w.wantRuns(1)
}

// case 2: what outer handlers set belongs to them, not to the record.
func TestHeadersOfOuterHandlersAreNotRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-Inner", "1")
		rw.Header().Del("X-Removed")
	})
	n := 0
	inner := w.next
	w.next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n++
		rw.Header().Set("X-Request-Id", strings.Repeat("r", n))
		rw.Header().Set("X-Removed", "1")
		inner.ServeHTTP(rw, r)
	})
	first, second := w.send(ask{key: "K1"}), w.send(ask{key: "K1"})
	if got := first.Header.Get("X-Request-Id") + first.Header.Get("X-Removed"); got != "r" {
		t.Errorf("first: got %q, want r", got)
	}
	if got := second.Header.Get("X-Request-Id") + second.Header.Get("X-Inner"); got != "rr1" {
		t.Errorf("second: got %q, want rr1", got)
	}
}

// case 3
func TestEmptyAndFalsyAnswersAreAnswers(t *testing.T) {
	t.Parallel()
	write := func(body string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, body)
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"204":    func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNoContent) },
		"silent": func(http.ResponseWriter, *http.Request) {},
		"null":   write("null"), "0": write("0"), "false": write("false"), `""`: write(`""`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, httpkey.Config{}, handler)
			first, second := w.send(ask{key: "K1"}), w.send(ask{key: "K1"})
			got := []any{second.StatusCode, bodyOf(t, second), second.Header.Get("Content-Type")}
			want := []any{first.StatusCode, bodyOf(t, first), first.Header.Get("Content-Type")}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			w.wantRuns(1)
		})
	}
}

// case 6
func TestRefusalsFromBeforeAnythingRanAreNotStored(t *testing.T) {
	t.Parallel()
	status := http.StatusTooManyRequests
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })
	wantAnswer(t, w.send(ask{key: "K1"}), 429, "")
	wantAnswer(t, w.send(ask{key: "K1", header: http.Header{"Authorization": nil}}), 401, retryproof.CodeUnauthorized)
	status = http.StatusBadRequest
	wantAnswer(t, w.send(ask{key: "K1", body: `{"order_id":"42"}`}), 400, "")
	if seen := w.recorded(scopeOf("POST /payments", "u1", "K1")); seen.Claim != nil || seen.Guard != nil {
		t.Errorf("got %+v, want no claim and no guard", seen)
	}
	status = http.StatusCreated
	wantAnswer(t, w.send(ask{key: "K1"}), 201, "")
	wantAnswer(t, w.send(ask{key: "K1"}), 201, "")
	w.wantRuns(3)
}

// case 7
func TestDeclineStaysADecline(t *testing.T) {
	t.Parallel()
	funds := false
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		_ = effect.FromContext(r.Context()).Key("charge")
		if !funds {
			rw.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(rw, "declined: no funds")
		}
	})
	wantAnswer(t, w.send(ask{key: "K1"}), 402, "")
	funds = true
	for _, after := range []time.Duration{20 * time.Second, 2 * time.Hour, 48 * time.Hour} {
		w.clock.Advance(after)
		resp := w.send(ask{key: "K1"})
		if got := bodyOf(t, resp); resp.StatusCode != http.StatusPaymentRequired || got != "declined: no funds" {
			t.Errorf("after %v: got %d %q, want the first decline", after, resp.StatusCode, got)
		}
	}
	w.wantRuns(1)
	wantAnswer(t, w.send(ask{key: "K2"}), 200, "")
	w.wantRuns(2)
}

// case 10
func TestRevokedCallerNeverGetsAReplay(t *testing.T) {
	t.Parallel()
	revoked := false
	w := newWorld(t, httpkey.Config{Challenge: "Bearer", Caller: func(r *http.Request) (string, error) {
		if revoked {
			return bearer(&http.Request{Header: http.Header{"Authorization": {"Bearer revoked"}}})
		}
		return bearer(r)
	}}, ok("secret"))
	wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
	revoked = true
	for _, key := range []string{"K1", "K2", ""} { // not even whether the key exists, or is valid
		resp := w.send(ask{key: key})
		if strings.Contains(bodyOf(t, resp), "secret") {
			t.Error("the stored body was handed out")
		}
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("key %q: got %d, want 403", key, resp.StatusCode)
		}
	}
	resp := w.send(ask{key: "K1", header: http.Header{"Authorization": nil}})
	if got := resp.StatusCode; got != http.StatusForbidden {
		t.Errorf("got %d, want 403", got)
	}
	revoked = false
	resp = w.send(ask{key: "K1", header: http.Header{"Authorization": nil}})
	if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized || got != "Bearer" {
		t.Errorf("got %d %q, want 401 Bearer", resp.StatusCode, got)
	}
	if got := bodyOf(t, w.send(ask{key: "K1"})); got != "secret" {
		t.Errorf("restored: got %q, want secret", got)
	}
	w.wantRuns(1)
}

// case 10
func TestAuthorizeMayRefuseAReplay(t *testing.T) {
	t.Parallel()
	allowed := true
	w := newWorld(t, httpkey.Config{Authorize: func(_ *http.Request, d effect.Decision) error {
		if !allowed {
			return retryproof.Refused(retryproof.CodeForbidden, "the order moved to another account", nil)
		}
		return nil
	}}, ok("secret"))
	w.send(ask{key: "K1"})
	allowed = false
	wantAnswer(t, w.send(ask{key: "K1"}), 403, retryproof.CodeForbidden)
	allowed = true
	wantAnswer(t, w.send(ask{key: "K1"}), 200, "")
	w.wantRuns(1)
}

// case 11
func TestAnswersNeverCrossEndpointsOrCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, r *http.Request) {
		caller, _ := bearer(r)
		_, _ = io.WriteString(rw, caller+" "+r.Method+" "+r.URL.String())
	})
	asks := []ask{
		{url: "/payments"}, {url: "/payments?dry=1"}, {url: "/payments?dry=1&dry=2"}, {url: "/payments?dry=2&dry=1"},
		{url: "/payments?a;b"}, {url: "/payments?a;c"}, {url: "/payments/pay_7/refund"}, {url: "/orders/1/cancel"}, {url: "/orders/2/cancel"},
		{url: "/orders/1%2Fcancel"}, {method: http.MethodPatch, url: "/payments"}, {user: "u2"}, {user: "u1:x", key: "k"}, {key: "x:k"},
	}
	for _, round := range []string{"first", "repeat"} {
		for _, a := range asks {
			if a.key == "" {
				a.key = "K"
			}
			r := a.request()
			caller, _ := bearer(r)
			want := caller + " " + r.Method + " " + r.URL.String()
			if got := bodyOf(t, w.send(a)); got != want {
				t.Errorf("%s: got %q, want %q", round, got, want)
			}
		}
	}
	w.wantRuns(int64(len(asks)))
	resp := w.send(ask{url: "/payments?b=2&a=1", key: "Q"})
	again := w.send(ask{url: "/payments?a=1&b=2", key: "Q"})
	if got, want := bodyOf(t, again), bodyOf(t, resp); got != want {
		t.Errorf("the order of query names counts: got %q, want %q", got, want)
	}
}

// case 12, case 13
func TestAnotherMeaningIsRefusedAndRunsNothing(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"2^53":          {`{"a":9007199254740992}`, `{"a":9007199254740993}`},
		"int64":         {`{"a":9223372036854775807}`, `{"a":9223372036854775808}`},
		"text number":   {`{"a":3000}`, `{"a":"3000"}`},
		"fraction":      {`{"a":3000}`, `{"a":30.00}`},
		"normal forms":  {`{"a":"café"}`, `{"a":"cafe\u0301"}`},
		"array order":   {`[{"to":"a","n":1000},{"to":"b","n":2000}]`, `[{"to":"b","n":2000},{"to":"a","n":1000}]`},
		"legs":          {`{"legs":{"a":1000,"b":2000}}`, `{"legs":{"b":1000,"a":2000}}`},
		"empty or null": {`{"a":null}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, httpkey.Config{}, ok("done"))
			wantAnswer(t, w.send(ask{key: "K1", body: pair[0]}), 200, "")
			wantAnswer(t, w.send(ask{key: "K1", body: pair[1]}), 422, retryproof.CodeKeyReused)
			w.wantRuns(1)
			wantAnswer(t, w.send(ask{key: "K2", body: pair[1]}), 200, "")
			w.wantRuns(2)
		})
	}
}

// case 12
func TestSpellingsOfOneMeaningAreOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{Ignore: []string{"sent_at", "/meta/trace"}}, ok("done"))
	for _, body := range []string{
		`{"amount":3000,"order":"42","meta":{"trace":"t1","x":1}}`,
		"\n{ \"order\" : \"4\\u0032\",\t\"meta\":{\"x\":1.0,\"trace\":7}, \"amount\" : 3000.0 } ",
		`{"sent_at":"2026-03-04T05:06:07Z","amount":3e3,"order":"42","meta":{"x":10e-1}}`,
	} {
		wantAnswer(t, w.send(ask{key: "K1", body: body, header: http.Header{"X-Extra": {"1"}}}), 200, "")
	}
	w.wantRuns(1)
}

// case 13
func TestMalformedTextIsRefusedBeforeAnyClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, ok("done"))
	for _, body := range []string{
		"{\"order_id\":\"A\xff\"}", "{\"order_id\":\"A\xfe\"}", `{"a":"\ude00\ud83d"}`, `{"a":"\ud83d"}`,
		`{"amount":1,"amount":2}`, `{"a":1,"\u0061":1}`, `{"a":01}`, `{"a":1}{`, ` `,
	} {
		wantAnswer(t, w.send(ask{key: "K1", body: body}), 400, retryproof.CodeInvalid)
	}
	w.wantRuns(0)
	if got := w.seen.of(effect.SawFirst); got != 0 {
		t.Errorf("claims: got %d, want 0", got)
	}
}

// case 14
func TestFieldThatJoinsTheMeaningDoesNotBreakRetries(t *testing.T) {
	t.Parallel()
	type order struct {
		Amount int64
		Tip    int64
	}
	read := func(withTip bool) func(*http.Request, []byte) (httpkey.Meaning, error) {
		return func(_ *http.Request, body []byte) (httpkey.Meaning, error) {
			var o order
			if err := json.Unmarshal(body, &o); err != nil {
				return httpkey.Meaning{}, err
			}
			fields := []retryproof.Field{retryproof.Int("amount", o.Amount)}
			if withTip {
				fields = append(fields, retryproof.Int("tip", o.Tip).Since(2))
			}
			return httpkey.Meaning{Fingerprint: retryproof.FingerprintOf(fields...), Value: o}, nil
		}
	}
	for _, upgrade := range []bool{true, false} {
		before := newWorld(t, httpkey.Config{Read: read(!upgrade)}, ok("done"))
		after := newWorldOn(t, before.store, effect.Config{}, httpkey.Config{Read: read(upgrade)}, ok("done"))
		wantAnswer(t, before.send(ask{key: "K1", body: `{"amount":3000}`}), 200, "")
		wantAnswer(t, after.send(ask{key: "K1", body: `{"amount":3000}`}), 200, "")
		wantAnswer(t, after.send(ask{key: "K1", body: `{"amount":3500}`}), 422, retryproof.CodeKeyReused)
		after.wantRuns(0)
	}
}

func TestLateRepeatGetsTheFirstAnswerFromTheGuard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, httpkey.Config{}, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Location", "/payments/7")
		rw.WriteHeader(http.StatusCreated)
		_, _ = rw.Write(bytes.Repeat([]byte("a"), 1000))
	})
	first := bodyOf(t, w.send(ask{key: "K1"}))
	w.clock.Advance(25 * time.Hour)
	for range 2 { // from the guard, then from the claim that was written again
		resp := w.send(ask{key: "K1"})
		if got := bodyOf(t, resp); resp.StatusCode != http.StatusCreated || got != first || resp.Header.Get("Location") == "" {
			t.Errorf("got %d %d bytes %q, want 201 and the first body", resp.StatusCode, len(got), resp.Header.Get("Location"))
		}
	}
	w.wantRuns(1)
}

// voided is a store in which every key was voided.
type voided struct{ effect.Store }

func (voided) Begin(_ context.Context, b effect.Begin) (effect.Seen, error) {
	return effect.Seen{Guard: &effect.Guard{ID: b.GuardID, Scope: b.Scope, State: effect.Void}}, nil
}

func TestVoidedKeyNeverRuns(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, voided{memory.New().Effects()}, effect.Config{}, httpkey.Config{}, ok("done"))
	wantAnswer(t, w.send(ask{key: "K1"}), 409, retryproof.CodeVoid)
	w.wantRuns(0)
}
