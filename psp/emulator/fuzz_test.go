package emulator

import (
	"encoding/json"
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
		if verify("the secret", payload, header, now) == nil {
			t.Errorf("%q was taken", header)
		}
		if err := verify("the secret", payload, Sign("the secret", payload, now), now); err != nil {
			t.Errorf("a good signature: %v", err)
		}
	})
}
