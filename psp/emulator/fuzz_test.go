package emulator

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"time"
)

func FuzzParseParam(f *testing.F) {
	for _, s := range []string{"amount", "metadata[payment_id]", "expand[]", "a[b][c]", "[", "a]", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, ok := parseParam(name)
		if !ok {
			return
		}
		got := p.base
		if p.nested {
			got += "[" + p.key + "]"
		}
		if got != name {
			t.Errorf("got %q, want %q", got, name)
		}
	})
}

func FuzzParseForm(f *testing.F) {
	f.Add("amount=3000&currency=usd&metadata[payment_id]=pay_7&confirm=true")
	f.Add("amount=1&amount=2&expand[]=a&expand[]=b")
	f.Fuzz(func(t *testing.T, body string) {
		in, err := url.ParseQuery(body)
		if err != nil {
			return
		}
		first, fail := parseForm(in, createParams...)
		if fail != nil {
			if fail.status != 400 || fail.Message == "" {
				t.Errorf("got %+v, want a 400 that says why", fail)
			}
			return
		}
		if amount, fail := first.amount(0, true); fail == nil && amount < 1 {
			t.Errorf("got the amount %d", amount)
		}
		if second, _ := parseForm(in, createParams...); !reflect.DeepEqual(first, second) {
			t.Errorf("got %+v and then %+v", first, second)
		}
	})
}

func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"metadata['payment_id']:'pay_7'", `status:"succeeded" AND metadata["a"]:'it\'s'`, "metadata[", "x:'y'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, q string) {
		clauses, err := parseQuery(q)
		if err == nil && len(clauses) == 0 {
			t.Error("a query without clauses was taken")
		}
		// Whatever is quoted is read back exactly.
		back, err := parseQuery("metadata['a']:" + QuoteSearch(q))
		if err != nil || len(back) != 1 || back[0].value != q {
			t.Errorf("got %v %v, want %q", back, err, q)
		}
	})
}

func FuzzParseFaults(f *testing.F) {
	f.Add([]byte(`[{"operation":"charge","do":"lose_reply","count":2}]`))
	f.Add([]byte(`[{"operation":"search","do":"delay","by":"1s","when":"after","always":true}]`))
	f.Add([]byte(`[] x`))
	f.Fuzz(func(t *testing.T, b []byte) {
		faults, err := ParseFaults(b)
		if err != nil {
			return
		}
		out, err := json.Marshal(faults)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseFaults(out)
		if err != nil || (len(faults) > 0 && !reflect.DeepEqual(faults, again)) {
			t.Errorf("got %v %v, want %v", again, err, faults)
		}
	})
}

func FuzzVerifySignature(f *testing.F) {
	now := time.Unix(1_700_000_000, 0)
	f.Add("t=1700000000,v1=00", []byte("x"))
	f.Add(Sign("wrong", []byte("x"), now), []byte("x"))
	f.Fuzz(func(t *testing.T, header string, payload []byte) {
		if newSigner("the secret").verify(payload, header, now) == nil {
			t.Errorf("%q was taken", header)
		}
		if err := newSigner("the secret").verify(payload, Sign("the secret", payload, now), now); err != nil {
			t.Errorf("a good signature: %v", err)
		}
	})
}

// FuzzReads: no question breaks the company, and no answer is outside its words.
func FuzzReads(f *testing.F) {
	f.Add("refunds", "payment_intent=pi_1&created[gte]=1&created[lt]=9&limit=3&starting_after=re_1")
	f.Add("payment_intents", "created[gte]=-1&created[lt]=99999999999999999999&ending_before=x")
	f.Add("payment_intents/search", "query=metadata['a']:'b'&page=1")
	f.Add("refunds/%zz", "limit=0")
	f.Fuzz(func(t *testing.T, path, query string) {
		form, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		c, err := New(t.Context(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(t.Context(), Request{Method: "GET", Path: "/v1/" + path, Form: form})
		if err != nil || (resp.Status != 200 && resp.Status != 400 && resp.Status != 404) || !json.Valid(resp.Body) {
			t.Errorf("got %d %s %v", resp.Status, resp.Body, err)
		}
	})
}

// FuzzRefund: whatever is asked, no more is given back than was charged.
func FuzzRefund(f *testing.F) {
	f.Add("amount=1000&metadata[refund_id]=r", "amount=2001")
	f.Add("", "amount=1")
	f.Add("amount=3000", "amount=9223372036854775807")
	f.Fuzz(func(t *testing.T, first, second string) {
		c, err := New(t.Context(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		do := func(path, body string) Response {
			form, err := url.ParseQuery(body)
			if err != nil {
				return Response{}
			}
			resp, err := c.Do(t.Context(), Request{Method: "POST", Path: path, Form: form})
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		do("/v1/payment_intents", "amount=3000&currency=usd&payment_method=pm_1&confirm=true")
		intent := c.Charges()[0].Intent
		for _, body := range []string{first, second} {
			do("/v1/refunds", body+"&payment_intent="+intent)
		}
		var total int64
		for _, r := range c.Refunds() {
			total += r.Amount
			if r.Amount < 1 {
				t.Errorf("a refund of %d", r.Amount)
			}
		}
		if total > 3000 || total != c.Charges()[0].Refunded {
			t.Errorf("given back %d, in the book %d, charged 3000", total, c.Charges()[0].Refunded)
		}
	})
}

// FuzzDirectWebhook: a signed message of any form is read or refused, and a refund
// always has an id.
func FuzzDirectWebhook(f *testing.F) {
	f.Add([]byte(`{"id":"evt_1","type":"refund.created","data":{"object":{"id":"re_1","payment_intent":"pi_1","status":"pending"}}}`))
	f.Add([]byte(`{"id":"evt_1","type":"refund.failed","data":{"object":{}}}`))
	f.Add([]byte(`{"id":"evt_1","type":"charge.refunded","data":{"object":{"id":"ch_1","payment_intent":{}}}}`))
	c, err := New(f.Context(), Config{})
	if err != nil {
		f.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, body []byte) {
		header := http.Header{SignatureHeader: {Sign(DefaultWebhookSecret, body, now)}}
		e, err := (Direct{Core: c}).Webhook(body, header, now)
		if err == nil && (e.Refund.ID == "") != (e.Refund.State == "") {
			t.Errorf("got %+v", e)
		}
	})
}
