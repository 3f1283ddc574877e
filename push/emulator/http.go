package emulator

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/push"
)

// maxRequestBytes bounds a request's body. JSON may spend six bytes on one.
const maxRequestBytes = 16 << 10

// screenLimit bounds one answer about a screen; the counts cover all of it.
const screenLimit = 100

type sendRequest struct {
	To        string `json:"to"`
	ReplaceID string `json:"replace_id,omitempty"`
	Title     string `json:"title"`
	Body      string `json:"body"`
}

type shownJSON struct {
	Title     string    `json:"title"`
	Body      string    `json:"body"`
	ReplaceID string    `json:"replace_id"`
	At        time.Time `json:"at"`
	Alerts    int64     `json:"alerts"`
}

type screenJSON struct {
	To            string      `json:"to"`
	Shown         int         `json:"shown"`
	Alerts        int64       `json:"alerts"`
	Notifications []shownJSON `json:"notifications"` // newest first, at most screenLimit
}

type faultJSON struct {
	Kind    FaultKind `json:"kind"`
	Next    int       `json:"next"`
	DelayMS int64     `json:"delay_ms,omitempty"`
	To      string    `json:"to,omitempty"`
}

// Handler serves the provider over HTTP:
//
//	POST   /send               {"to","replace_id","title","body"} → 204
//	GET    /screen/{to}        what one phone shows
//	GET    /totals             {"shown","alerts"}
//	POST   /_emulator/faults   {"kind","next","delay_ms","to"} → 201
//	GET    /_emulator/faults   {"faults":[…]}
//	DELETE /_emulator/faults   → 204
//
// Errors are problem documents (RFC 9457) with a "code". A lost reply cuts the
// connection.
func (e *Emulator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /send", e.serveSend)
	mux.HandleFunc("GET /screen/{to}", func(w http.ResponseWriter, r *http.Request) {
		e.serveScreen(w, r.PathValue("to"))
	})
	mux.HandleFunc("GET /totals", func(w http.ResponseWriter, _ *http.Request) {
		t := e.Totals()
		writeJSON(w, http.StatusOK, map[string]int64{"shown": t.Shown, "alerts": t.Alerts})
	})
	mux.HandleFunc("POST /_emulator/faults", e.serveAddFault)
	mux.HandleFunc("GET /_emulator/faults", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"faults": faultsJSON(e.Faults())})
	})
	mux.HandleFunc("DELETE /_emulator/faults", func(w http.ResponseWriter, _ *http.Request) {
		e.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// ScreenHandler serves what one phone shows, named by the query parameter "to",
// in the shape of GET /screen/{to}. It is for a page that must reach the screens
// and nothing else of the provider.
func (e *Emulator) ScreenHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeProblem(w, http.StatusMethodNotAllowed, "method-not-allowed", "use GET or HEAD")
			return
		}
		e.serveScreen(w, r.URL.Query().Get("to"))
	})
}

func (e *Emulator) serveSend(w http.ResponseWriter, r *http.Request) {
	var in sendRequest
	if !readJSON(w, r, &in) {
		return
	}
	err := e.Send(r.Context(), push.Notification{To: in.To, ReplaceID: in.ReplaceID, Title: in.Title, Body: in.Body})
	if errors.Is(err, errReplyLost) {
		panic(http.ErrAbortHandler) // net/http's way to cut the connection
	}
	if err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (e *Emulator) serveScreen(w http.ResponseWriter, to string) {
	if to == "" || len(to) > MaxToBytes {
		writeProblem(w, http.StatusBadRequest, retryproof.CodeInvalid, `"to" is empty or too long`)
		return
	}
	shown := e.Screen(to)
	out := screenJSON{To: to, Shown: len(shown), Notifications: []shownJSON{}}
	for i, s := range shown {
		out.Alerts += s.Alerts
		if i < screenLimit {
			out.Notifications = append(out.Notifications, shownFields(s))
		}
	}
	writeJSON(w, http.StatusOK, out)
}

func shownFields(s Shown) shownJSON {
	return shownJSON{Title: s.Title, Body: s.Body, ReplaceID: s.ReplaceID, At: s.At, Alerts: s.Alerts}
}

func (e *Emulator) serveAddFault(w http.ResponseWriter, r *http.Request) {
	var in faultJSON
	if !readJSON(w, r, &in) {
		return
	}
	if in.DelayMS < 0 || in.DelayMS > maxDelay.Milliseconds() {
		writeProblem(w, http.StatusBadRequest, retryproof.CodeInvalid, "delay_ms is negative or longer than 10 minutes")
		return
	}
	f := Fault{Kind: in.Kind, Next: in.Next, Delay: time.Duration(in.DelayMS) * time.Millisecond, To: in.To}
	if err := e.AddFault(f); err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, map[string]any{"faults": faultsJSON(e.Faults())})
}

func faultsJSON(faults []Fault) []faultJSON {
	out := []faultJSON{}
	for _, f := range faults {
		out = append(out, faultJSON{Kind: f.Kind, Next: f.Next, DelayMS: f.Delay.Milliseconds(), To: f.To})
	}
	return out
}

// readJSON reads exactly one JSON object without unknown members, whatever its
// Content-Type. On false it has answered with a problem.
func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, next := d.Token(); !errors.Is(next, io.EOF) {
			err = errors.New("there is something after the JSON object")
			var tooLarge *http.MaxBytesError
			if errors.As(next, &tooLarge) {
				err = next
			}
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return true
	case errors.As(err, &tooLarge):
		writeProblem(w, http.StatusRequestEntityTooLarge, retryproof.CodeTooLarge, "the body is longer than 16 KiB")
	default:
		writeProblem(w, http.StatusBadRequest, retryproof.CodeInvalid, err.Error())
	}
	return false
}

func writeError(w http.ResponseWriter, err error) {
	var e *retryproof.Error
	if !errors.As(err, &e) {
		e = &retryproof.Error{Code: retryproof.CodeUnknown, Message: "the push provider failed"}
	}
	status := http.StatusInternalServerError
	if e.Outcome == retryproof.NotDone {
		status = http.StatusServiceUnavailable
		if e.Code == retryproof.CodeInvalid {
			status = http.StatusBadRequest
		}
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	writeProblem(w, status, e.Code, e.Error())
}

// writeProblem answers with a problem document. A code that the problems of this module
// do not have gets the status' own words for a title.
func writeProblem(w http.ResponseWriter, status int, code retryproof.Code, detail string) {
	p := httpkey.ProblemOf(retryproof.Refused(code, detail, nil))
	if p.Code != code {
		p.Type, p.Code, p.Title = httpkey.ProblemBase+string(code), code, http.StatusText(status)
	}
	p.Status, p.RetryAfter = status, 0
	if seconds, err := strconv.Atoi(w.Header().Get("Retry-After")); err == nil {
		p.RetryAfter = seconds
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	p.Write(w)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	writeBody(w, status, v)
}

func writeBody(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the status is out; a reader that left is not our error
}
