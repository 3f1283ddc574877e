package httpkey_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/store/memory"
)

// discard is a response writer that costs almost nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// rewind is a body that can be read again and again.
type rewind struct {
	text string
	at   int
}

func (r *rewind) Read(p []byte) (int, error) {
	if r.at == len(r.text) {
		r.at = 0
		return 0, io.EOF
	}
	n := copy(p, r.text[r.at:])
	r.at += n
	return n, nil
}

func (r *rewind) Close() error { return nil }

// BenchmarkMiddleware serves one request of 90 bytes with an answer of 60 on the
// memory store: without the middleware's work, as a first request, and as a
// repeat. x/no-key is the ratio to the first of the three, in the same run.
func BenchmarkMiddleware(b *testing.B) {
	perOp := map[string]float64{}
	for _, kind := range []string{"no key", "first", "replay"} {
		b.Run(kind, func(b *testing.B) {
			serve := benchServer(b)
			r := httptest.NewRequest(http.MethodPost, "/payments", nil)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer u1")
			body := &rewind{text: `{"order_id":"42","amount":3000,"currency":"USD","payment_method":"pm_1","note":"benchmark"}`}
			r.Body, r.ContentLength = body, int64(len(body.text))
			w := &discard{header: http.Header{}}
			if kind == "replay" {
				r.Header.Set(httpkey.HeaderKey, "K1")
				serve(w, r)
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				if kind == "first" {
					n++
					r.Header.Set(httpkey.HeaderKey, "K"+strconv.Itoa(n))
				}
				serve(w, r)
			}
			perOp[kind] = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			b.ReportMetric(perOp[kind]/perOp["no key"], "x/no-key")
		})
	}
}

func benchServer(b *testing.B) func(http.ResponseWriter, *http.Request) {
	b.Helper()
	engine, err := effect.New(memory.New().Effects(), effect.Config{Clock: clock.System()})
	if err != nil {
		b.Fatal(err)
	}
	mw, err := httpkey.New(engine, httpkey.Config{Caller: bearer, Optional: true})
	if err != nil {
		b.Fatal(err)
	}
	return mw.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"pay_7","state":"SUCCEEDED","amount":3000,"cur":"USD"}`)
	})).ServeHTTP
}

// BenchmarkCanonicalJSON compares the meaning of a body with reading it by
// encoding/json.
func BenchmarkCanonicalJSON(b *testing.B) {
	text := []byte(`{"order_id":"42","amount":3000,"currency":"USD","payment_method":"pm_1","items":[{"sku":"a","n":1},{"sku":"b","n":2}]}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := httpkey.CanonicalJSON(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFileJournal is what the key of a named intent costs before its first
// send: one file, flushed, and its directory, flushed.
func BenchmarkFileJournal(b *testing.B) {
	j, err := httpkey.OpenFileJournal(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		if _, made, err := j.Open(b.Context(), entry(fmt.Sprint("intent-", n), "K1", start)); err != nil || !made {
			b.Fatal(made, err)
		}
	}
}
