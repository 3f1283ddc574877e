package saga_test

import (
	"testing"
	"time"

	"github.com/retryproof/retryproof/saga"
)

// The stored form: a newer program must read what an older one wrote.
func TestLogKeepsItsStoredForm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 29, 0, 59, 57, 123456000, time.UTC)
	log := []saga.Entry{
		{Step: "charge", Key: "pay_7:charge", State: saga.Done, Tries: 2, Result: []byte("ch_7"), BegunAt: at, UpdatedAt: at.Add(time.Second)},
		{Step: "charge", Cancel: true, Key: "pay_7:cancel:refund", State: saga.Unknown, Tries: 12, Alerted: 10, Code: "unavailable",
			Message: "no answer", BegunAt: at, UpdatedAt: at, ResultDropped: true},
	}
	const want = `[{"step":"charge","key":"pay_7:charge","state":"DONE","tries":2,"result":"Y2hfNw==",` +
		`"begun_at":"2026-03-29T00:59:57.123456Z","updated_at":"2026-03-29T00:59:58.123456Z"},` +
		`{"step":"charge","cancel":true,"key":"pay_7:cancel:refund","state":"UNKNOWN","tries":12,"alerted":10,"result_dropped":true,` +
		`"code":"unavailable","message":"no answer","begun_at":"2026-03-29T00:59:57.123456Z","updated_at":"2026-03-29T00:59:57.123456Z"}]`
	got, err := saga.EncodeLog(log)
	if string(got) != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	back, err := saga.DecodeLog(got)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := saga.EncodeLog(back)
	check(t, "the log read back", string(again), want)
	if got, _ := saga.EncodeLog(nil); string(got) != "[]" {
		t.Errorf("no log: got %s, want []", got)
	}
	if _, err := saga.DecodeLog([]byte(`{"step":1}`)); err == nil {
		t.Error("a broken log: got no error, want one")
	}
}

func FuzzDecodeLog(f *testing.F) {
	f.Add([]byte(`[{"step":"charge","key":"k","state":"DONE","tries":1}]`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		log, err := saga.DecodeLog(b)
		if err != nil {
			return
		}
		first, err := saga.EncodeLog(log)
		if err != nil {
			return // a year that JSON's form of a time cannot hold
		}
		back, err := saga.DecodeLog(first)
		if err != nil {
			t.Fatalf("got %v, want the log that was just encoded", err)
		}
		if second, _ := saga.EncodeLog(back); string(second) != string(first) {
			t.Errorf("got %s, want %s", second, first)
		}
	})
}
