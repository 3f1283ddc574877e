package payments_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
)

// case 6: what is refused before anything ran is not stored.
func TestACorrectedRequestSucceedsUnderItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want(t, w.send(ask{key: keyK1, token: "expired"}), http.StatusUnauthorized, retryproof.CodeUnauthorized)
	want(t, w.send(ask{key: keyK1, body: `{"order_id":"42"}`}), http.StatusBadRequest, retryproof.CodeInvalid)
	want(t, w.send(ask{key: keyK1, path: "/payments?dry=1"}), http.StatusBadRequest, retryproof.CodeInvalid)
	w.wantNothing()
	if seen := w.recorded("u1", keyK1); seen.Claim != nil || seen.Guard != nil {
		t.Errorf("got %+v, want no record", seen)
	}
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	w.wantCharges(1)
}

// case 9, over HTTP: every malformed key is refused before anything is claimed.
func TestBadKeysClaimNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewServer(w.system.Handler())
	t.Cleanup(server.Close)
	random := rand.New(rand.NewPCG(9, 9))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(random.IntN(26))
		}
		return string(b)
	}
	for _, c := range []struct {
		name string
		keys []string
		code retryproof.Code
	}{
		{"missing", nil, retryproof.CodeKeyMissing}, {"empty", []string{""}, retryproof.CodeKeyMissing}, {"blanks", []string{"   "}, retryproof.CodeKeyMissing},
		{"quoted empty", []string{`""`}, retryproof.CodeKeyMissing}, {"two lines", []string{"K1", "K2"}, retryproof.CodeKeyMalformed},
		{"byte 0xff", []string{"K\xff"}, retryproof.CodeKeyMalformed}, {"256 bytes", []string{text(256)}, retryproof.CodeKeyMalformed},
		{"4096 bytes", []string{text(4096)}, retryproof.CodeKeyMalformed}, {"16384 bytes", []string{text(16384)}, retryproof.CodeKeyMalformed},
		{"an e-mail address", []string{"ann@example.org"}, retryproof.CodeKeyMalformed}, {"255 bytes", []string{text(255)}, ""},
	} {
		for _, token := range []string{"t-u1", "t-u2"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/payments", strings.NewReader(order(3000)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header[httpkey.HeaderKey] = c.keys
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			got := read(t, resp)
			_ = resp.Body.Close()
			status := http.StatusBadRequest
			if c.code == "" {
				status = http.StatusCreated
			}
			if got.status != status || got.code != c.code {
				t.Errorf("%s: got %d %q, want %d %q", c.name, got.status, got.code, status, c.code)
			}
		}
		if c.code != "" {
			w.wantNothing()
		}
	}
	w.wantCharges(2) // 255 bytes, of two buyers
}

// counting counts what is read of an endless body.
type counting struct {
	left, read int64
}

func (c *counting) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), c.left)
	c.left, c.read = c.left-n, c.read+n
	return copy(b, bytes.Repeat([]byte(" "), int(n))), nil
}

// case 9: a body without a Content-Length is counted as it comes.
func TestAHugeBodyIsRefusedBeforeAnyClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := &counting{left: 50 << 20}
	r := httptest.NewRequest(http.MethodPost, "/payments", body)
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer t-u1")
	r.Header.Set(httpkey.HeaderKey, keyK1)
	rec := httptest.NewRecorder()
	w.system.Handler().ServeHTTP(rec, r)
	want(t, read(t, rec.Result()), http.StatusRequestEntityTooLarge, retryproof.CodeTooLarge)
	if body.read > 128<<10 {
		t.Errorf("read %d bytes of a body that may have 64 KiB", body.read)
	}
	w.wantNothing()
}

// case 9: the same over a connection, in chunks.
func TestAHugeChunkedBodyIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewServer(w.system.Handler())
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "POST /payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t-u1\r\nIdempotency-Key: %s\r\nTransfer-Encoding: chunked\r\n\r\n", keyK1)
	go func() { // 50 MiB; the server stops reading long before
		for range 50 << 8 {
			if _, err := fmt.Fprintf(conn, "1000\r\n%s\r\n", strings.Repeat(" ", 4096)); err != nil {
				return
			}
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	want(t, read(t, resp), http.StatusRequestEntityTooLarge, retryproof.CodeTooLarge)
	w.wantNothing()
}

// case 10: a stored answer is for callers who may still ask.
func TestARevokedBuyerGetsNoStoredAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.send(ask{key: keyK1})
	want(t, first, http.StatusCreated, "")
	w.tokens.set("t-u1", "")
	refused := w.send(ask{key: keyK1})
	want(t, refused, http.StatusUnauthorized, retryproof.CodeUnauthorized)
	if strings.Contains(refused.body, string(idOf("u1", keyK1))) {
		t.Errorf("the refusal names the payment: %s", refused.body)
	}
	w.tokens.set("t-u1", "u1")
	wantSame(t, w.send(ask{key: keyK1}), first)
	w.wantCalls(1)
}

// case 11: no two scopes share a name, and no other endpoint answers.
func TestScopesDoNotMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.send(ask{key: "k", token: "t-u1:x"})
	b := w.send(ask{key: "x:k", token: "t-u1"})
	want(t, a, http.StatusCreated, "")
	want(t, b, http.StatusCreated, "")
	if a.header.Get("Location") == b.header.Get("Location") {
		t.Error("two scopes share a payment")
	}
	if asked := w.psp.requests(); asked[0].Key == asked[1].Key {
		t.Error("two scopes share a processor key")
	}
	w.wantCharges(2)
	id := string(idOf("u1", "x:k"))
	for _, path := range []string{"/payments/" + id + "/refund", "/orders/1/cancel", "/payments?dry=1"} {
		if got := w.send(ask{key: "x:k", path: path}); got.status/100 != 4 || strings.Contains(got.body, id) {
			t.Errorf("%s: got %d %s, want a refusal that names no payment", path, got.status, got.body)
		}
	}
	w.wantCalls(2)
}

// case 12: amounts are digits, exact, and the amount that is compared is sent.
func TestAmountsAreExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, amount := range []string{
		"3000.0", "3e3", `"3000"`, "30.00", "-0", "-1", "0", "null", "[3000]", "true", "100000000", "9007199254740992", "9007199254740993",
		"9223372036854775807", "9223372036854775808", "18446744073709551616", strings.Repeat("9", 400),
	} {
		want(t, w.send(ask{key: keyK1, body: strings.Replace(order(3000), "3000", amount, 1)}), http.StatusBadRequest, retryproof.CodeInvalid)
	}
	w.wantNothing()
	want(t, w.send(ask{key: keyK1, amount: 99_999_999}), http.StatusCreated, "")
	want(t, w.send(ask{key: keyK1, amount: 99_999_998}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
	want(t, w.send(ask{key: keyK2, amount: 1}), http.StatusCreated, "")
	asked := w.psp.requests()
	if len(asked) != 2 || asked[0].Amount != 99_999_999 || asked[1].Amount != 1 {
		t.Errorf("sent to the processor: got %+v, want 99999999 and 1", asked)
	}
}

// case 13: text is compared by its bytes, and malformed text is refused.
func TestTextIsComparedByItsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orderID := func(text string) string { return strings.Replace(order(3000), `"42"`, `"`+text+`"`, 1) }
	for _, bad := range []string{
		"A\xff", "A\xfe", `\ude00\ud83d`, `\ud83d`, `a\u0000b`, strings.Repeat("x", 201), "",
	} {
		want(t, w.send(ask{key: keyK1, body: orderID(bad)}), http.StatusBadRequest, retryproof.CodeInvalid)
	}
	for _, body := range []string{
		"", "null", "[]", "3", "{}", order(3000) + "x", strings.Replace(order(3000), `"amount":3000`, `"amount":3000,"amount":3500`, 1),
		strings.Replace(order(3000), `"USD"`, `"usd"`, 1), strings.Replace(order(3000), `"USD"`, `"US"`, 1), strings.Replace(order(3000), `"USD"`, `1`, 1),
		strings.Replace(order(3000), `"pm_1"`, `null`, 1), strings.Replace(order(3000), `"amount":3000,`, ``, 1),
	} {
		if body == "" {
			body = " "
		}
		want(t, w.send(ask{key: keyK1, body: body}), http.StatusBadRequest, retryproof.CodeInvalid)
	}
	w.wantNothing()
	const composed, decomposed = "caf\u00e9", "cafe\u0301"
	want(t, w.send(ask{key: keyK1, body: orderID(composed)}), http.StatusCreated, "")
	want(t, w.send(ask{key: keyK1, body: orderID(decomposed)}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
	want(t, w.send(ask{key: keyK1, body: orderID(`caf\u00e9`)}), http.StatusCreated, "") // the same text, escaped
	want(t, w.send(ask{key: keyK2, body: orderID(decomposed)}), http.StatusCreated, "")
	w.wantCharges(2)
}

// nextRelease is the fingerprint of the next release, which counts one field more.
func nextRelease(amount int64) retryproof.Fingerprint {
	return retryproof.FingerprintOf(
		retryproof.Text("order_id", "42"), retryproof.Int("amount", amount), retryproof.Text("currency", "USD"),
		retryproof.Text("payment_method", "pm_1"), retryproof.Text("merchant_id", "m1"), retryproof.Text("capture", "now").Since(2))
}

// case 14: a release that counts another field, or its roll-back, knows the
// repeats of the other.
func TestANewMeaningFieldChangesNoRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	next, err := effect.New(w.deps.Store.Effects, effect.Config{Clock: w.clock, Rerun: effect.RerunPending})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(key string, amount int64) effect.Verdict {
		t.Helper()
		d, _, err := next.Begin(t.Context(), effect.Request{Scope: scopeOf("u1", key), GuardID: idOf("u1", key), Fingerprint: nextRelease(amount),
			Row: w.wantState(keyK1, effect.Succeeded)})
		if err != nil {
			t.Fatal(err)
		}
		return d.Verdict
	}
	want(t, w.send(ask{key: keyK1}), http.StatusCreated, "")
	if got := begin(keyK1, 3000); got != effect.Replay {
		t.Errorf("the new release: got verdict %v, want Replay", got)
	}
	if got := begin(keyK1, 3500); got != effect.Mismatch {
		t.Errorf("the new release, other amount: got verdict %v, want Mismatch", got)
	}
	// Roll-back: the new release claimed K2 and is gone; the old one answers.
	row := w.wantState(keyK1, effect.Succeeded)
	row.ID, row.State = idOf("u1", keyK2), effect.Pending
	if _, _, err := next.Begin(t.Context(), effect.Request{Scope: scopeOf("u1", keyK2), GuardID: row.ID, Fingerprint: nextRelease(3000), Row: row}); err != nil {
		t.Fatal(err)
	}
	want(t, w.send(ask{key: keyK2, amount: 3500}), http.StatusUnprocessableEntity, retryproof.CodeKeyReused)
	want(t, w.send(ask{key: keyK2}), http.StatusConflict, retryproof.CodeInProgress)
	w.clock.Advance(6*time.Second + time.Millisecond)
	want(t, w.send(ask{key: keyK2}), http.StatusCreated, "")
	w.wantCharges(2)
}
