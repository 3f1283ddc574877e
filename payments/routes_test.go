package payments

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestTheShortWaysLeadWhereTheRoutesLead(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/payments", "/webhooks/psp"} {
		r := httptest.NewRequest(http.MethodPost, path, http.NoBody)
		_, want := mux().Handler(r)
		func() {
			defer func() { _ = recover() }() // a system without anything cannot serve
			new(System).serve(httptest.NewRecorder(), r)
		}()
		if r.Pattern != want || want == "" {
			t.Errorf("%s: got %q, want %q", path, r.Pattern, want)
		}
	}
}
