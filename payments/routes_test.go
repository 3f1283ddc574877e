package payments_test

import (
	"net/http"
	"testing"

	"github.com/retryproof/retryproof"
)

func TestWhatIsNoEndpointIsAProblemToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/", "/nothing", "/payments/x/y/z", "/operator"} {
		want(t, w.get(path), http.StatusNotFound, retryproof.CodeNotFound)
	}
	for path, allow := range map[string]string{"/payments": "POST", "/payments/x": "GET", "/payments/x/refunds": "GET, POST", "/readyz": "GET"} {
		got := w.send(ask{method: http.MethodDelete, path: path})
		want(t, got, http.StatusMethodNotAllowed, "method-not-allowed")
		if got.header.Get("Allow") != allow || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got %v, want Allow %s", path, got.header, allow)
		}
	}
}
