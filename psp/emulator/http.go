package emulator

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// DefaultAPIKey is the API key when none is set.
const DefaultAPIKey = "sk_test_emulator"

// maxBody is the largest request body.
const maxBody = 1 << 20

// HandlerConfig says who may call. The zero value works.
type HandlerConfig struct {
	// APIKey is the secret that callers send, as Bearer token or as the user of
	// Basic authentication. It is never logged nor answered. Defaults to DefaultAPIKey.
	APIKey string
	// ControlWithoutKey opens /_emulator/ to callers without the API key. Defaults
	// to false.
	ControlWithoutKey bool
}

// Handler serves Stripe's API below /v1/ and the control endpoints below
// /_emulator/:
//
//	GET, POST, DELETE /_emulator/faults    the script of faults: show, append, clear
//	GET               /_emulator/charges   every charge, with the requests of its key
//	GET               /_emulator/refunds   every refund, with the requests of its key
//	GET               /_emulator/webhooks  every webhook and what became of it
//	POST              /_emulator/methods   {"method": "pm_9", "decline_code": ""}
type Handler struct {
	core *Core
	cfg  HandlerConfig
	mux  *http.ServeMux
}

// NewHandler puts HTTP on the company.
func NewHandler(core *Core, cfg HandlerConfig) *Handler {
	if cfg.APIKey == "" {
		cfg.APIKey = DefaultAPIKey
	}
	h := &Handler{core: core, cfg: cfg, mux: http.NewServeMux()}
	h.mux.HandleFunc("GET /_emulator/faults", h.showFaults)
	h.mux.HandleFunc("POST /_emulator/faults", h.addFaults)
	h.mux.HandleFunc("DELETE /_emulator/faults", h.clearFaults)
	h.mux.HandleFunc("GET /_emulator/charges", h.showCharges)
	h.mux.HandleFunc("GET /_emulator/refunds", h.showRefunds)
	h.mux.HandleFunc("GET /_emulator/webhooks", h.showWebhooks)
	h.mux.HandleFunc("POST /_emulator/methods", h.setMethod)
	return h
}

// ServeHTTP implements http.Handler. A lost request or reply cuts the connection.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := strings.HasPrefix(r.URL.Path, "/_emulator/")
	if !(control && h.cfg.ControlWithoutKey) && !h.authorized(r) {
		f := &failure{401, errorJSON{Type: "invalid_request_error", Message: "The API key is missing or wrong."}}
		answer(w, f.status, f.body())
		return
	}
	if control {
		h.mux.ServeHTTP(w, r)
		return
	}
	form, fail := readForm(w, r)
	if fail != nil {
		answer(w, fail.status, fail.body())
		return
	}
	key := r.Header.Get("Idempotency-Key")
	// A payment company goes on when its caller hangs up.
	ctx := context.WithoutCancel(r.Context())
	resp, err := h.core.Do(ctx, Request{Method: r.Method, Path: r.URL.EscapedPath(), Key: key, Form: form})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	writeResponse(w, r, key, resp)
}

func writeResponse(w http.ResponseWriter, r *http.Request, key string, resp Response) {
	w.Header().Set("Request-Id", resp.ID)
	if v := r.Header.Get("Stripe-Version"); v != "" {
		w.Header().Set("Stripe-Version", v)
	}
	if key != "" && r.Method == http.MethodPost {
		w.Header().Set("Idempotency-Key", key)
	}
	switch {
	case resp.Replayed:
		w.Header().Set("Idempotent-Replayed", "true")
		w.Header().Set("Stripe-Should-Retry", "false")
	case resp.Status == http.StatusConflict:
		w.Header().Set("Stripe-Should-Retry", "true")
	case resp.Status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	answer(w, resp.Status, resp.Body)
}

// authorized compares digests, so that the time tells nothing about the key.
func (h *Handler) authorized(r *http.Request) bool {
	key, _, basic := r.BasicAuth()
	if !basic {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		key = strings.TrimSpace(token)
	}
	got, want := sha256.Sum256([]byte(key)), sha256.Sum256([]byte(h.cfg.APIKey))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// readForm reads the parameters: of the query for reads, of the body for writes.
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, *failure) {
	if r.Method != http.MethodPost {
		form, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, invalid("", "", "The query string cannot be read.")
		}
		return form, nil
	}
	if r.URL.RawQuery != "" {
		return nil, invalid("", "", "Send the parameters of a POST in its body.")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, &failure{413, errorJSON{Type: "invalid_request_error", Message: "The body is larger than 1 MiB."}}
	}
	if err != nil {
		return nil, invalid("", "", "The body cannot be read.")
	}
	if len(b) > 0 {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if kind != "application/x-www-form-urlencoded" {
			return nil, invalid("", "", "Send the parameters as application/x-www-form-urlencoded.")
		}
	}
	form, err := url.ParseQuery(string(b))
	if err != nil {
		return nil, invalid("", "", "The body is not a form.")
	}
	return form, nil
}

func answer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON, said to be JSON; a caller who is gone asks again
}

func (h *Handler) showFaults(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, encode(map[string]any{"faults": h.core.Faults()}))
}

func (h *Handler) addFaults(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, errors.New("emulator: the body cannot be read, or is larger than 1 MiB"))
		return
	}
	faults, err := ParseFaults(b)
	if err == nil {
		err = h.core.AddFaults(faults...)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	h.showFaults(w, r)
}

func (h *Handler) clearFaults(w http.ResponseWriter, r *http.Request) {
	h.core.ClearFaults()
	h.showFaults(w, r)
}

func (h *Handler) showCharges(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, encode(map[string]any{"charges": h.core.Charges()}))
}

func (h *Handler) showRefunds(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, encode(map[string]any{"refunds": h.core.Refunds()}))
}

func (h *Handler) showWebhooks(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, encode(map[string]any{"webhooks": h.core.Webhooks()}))
}

func (h *Handler) setMethod(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Method      string `json:"method"`
		DeclineCode string `json:"decline_code"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil || in.Method == "" {
		refuse(w, errors.New(`emulator: send {"method": "pm_9", "decline_code": "insufficient_funds"}, or "" for a method that pays`))
		return
	}
	if err := h.core.SetMethod(context.WithoutCancel(r.Context()), in.Method, in.DeclineCode); err != nil {
		f := internal("The journal did not take the change; nothing changed.")
		answer(w, f.status, f.body())
		return
	}
	answer(w, http.StatusOK, encode(in))
}

func refuse(w http.ResponseWriter, err error) {
	f := invalid("", "", err.Error())
	answer(w, f.status, f.body())
}
