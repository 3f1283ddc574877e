package httpkey

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// notRecorded are the headers that belong to one response, one connection or one
// client; sorted.
var notRecorded = []string{
	"Age", "Alt-Svc", "Authentication-Info", "Clear-Site-Data", "Connection", "Content-Length", "Date",
	HeaderBody, HeaderExpires, HeaderReplayed,
	"Keep-Alive", "Preference-Applied", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Connection",
	"Retry-After", "Server-Timing", "Set-Cookie", "Set-Cookie2", "Te", "Traceparent", "Tracestate", "Trailer",
	"Transfer-Encoding", "Upgrade", "Via", "Www-Authenticate",
}

// NotRecorded lists the response headers that are never stored and never replayed:
// credentials and cookies of the first client, what is hop by hop, and what is
// true of one response only. Headers that Connection names are not stored either,
// and neither are trailers. Content-Length is computed again.
func NotRecorded() []string { return slices.Clone(notRecorded) }

// recordable is the part of a header that is stored. Names count however they are
// spelled: net/http sends h["set-cookie"] as it is. A name without values is kept,
// since it keeps a header away.
func recordable(h http.Header) map[string][]string {
	var hops map[string]bool     // hardly ever there
	for name, lines := range h { // order: builds a set
		if http.CanonicalHeaderKey(name) == "Connection" {
			if hops == nil {
				hops = map[string]bool{}
			}
			for hop := range strings.SplitSeq(strings.Join(lines, ","), ",") {
				hops[http.CanonicalHeaderKey(trimOWS(hop))] = true
			}
		}
	}
	out := make(map[string][]string, len(h))
	for name, values := range h { // order: each name by itself
		if stays(name) && !hops[http.CanonicalHeaderKey(name)] {
			out[name] = slices.Clone(values)
		}
	}
	return out
}

// stays reports a name that may be stored.
func stays(name string) bool {
	_, never := slices.BinarySearch(notRecorded, http.CanonicalHeaderKey(name))
	return !never && !strings.HasPrefix(name, http.TrailerPrefix)
}

// writeAnswer writes a recorded or rendered answer. It is written so that the
// client can read it: codings that it did not ask for are undone, where that is
// possible.
func writeAnswer(w http.ResponseWriter, r *http.Request, a effect.Answer) {
	h := w.Header()
	for name, values := range a.Header { // order: each name by itself
		if stays(name) { // another version may have stored more
			h[name] = slices.Clip(values) // none: suppressed; clipped, since somebody may add to it
		}
	}
	if !bodyAllowed(a.Status) {
		w.WriteHeader(a.Status)
		return
	}
	if packed := codings(a.Header); len(a.Body) > 0 && !acceptsAll(r.Header, packed) {
		if plain, ok := unpack(a.Body, packed); ok {
			writePlain(w, a.Status, plain)
			return
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client is gone: the record stays
}

// writePlain writes the unpacked form. It is another representation, so a strong
// validator becomes weak, digests of the packed one go, and caches are told what it
// depends on.
func writePlain(w http.ResponseWriter, status int, plain io.Reader) {
	h := w.Header()
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return slices.Contains(packedHeaders, http.CanonicalHeaderKey(name))
	})
	if tag := h.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		h.Set("Etag", "W/"+tag)
	}
	if !strings.Contains(strings.ToLower(strings.Join(h.Values("Vary"), ",")), "accept-encoding") {
		h.Add("Vary", "Accept-Encoding")
	}
	w.WriteHeader(status)
	_, _ = io.Copy(w, plain) // a broken end shows as a short body, as it did before
}

// packedHeaders speak of the bytes as they were packed.
var packedHeaders = []string{"Content-Digest", "Content-Encoding", "Content-Md5", "Digest", "Repr-Digest"}

// bodyHeaders describe a body, and go with it.
var bodyHeaders = []string{
	"Accept-Ranges", "Content-Digest", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location",
	"Content-Md5", "Content-Range", "Digest", "Etag", "Last-Modified", "Repr-Digest",
}

// withoutBody stands in for an answer whose body was not kept: same status, same
// headers, and a body that names the effect and its state, when that is known
// (case 1).
func withoutBody(a effect.Answer, id retryproof.ID, state effect.State) effect.Answer {
	header := maps.Clone(a.Header)
	if header == nil {
		header = map[string][]string{}
	}
	maps.DeleteFunc(header, func(name string, _ []string) bool {
		name = http.CanonicalHeaderKey(name)
		return name == "Content-Type" || slices.Contains(bodyHeaders, name)
	})
	header["Content-Type"] = []string{"application/json"}
	return effect.Answer{Status: a.Status, Header: header, Body: stateJSON(id, state, "not-kept"), BodyDropped: true}
}

func stateJSON(id retryproof.ID, state effect.State, body string) []byte {
	text, err := json.Marshal(struct {
		ID    retryproof.ID `json:"id"`
		State effect.State  `json:"state,omitempty"`
		Body  string        `json:"body,omitempty"`
	}{id, state, body})
	if err != nil { // strings only: cannot happen
		return []byte("{}")
	}
	return append(text, '\n')
}

// keptAnswer is the form of an answer in Guard.Result. The member name keeps it
// apart from what a handler may leave there itself.
type keptAnswer struct {
	Answer *effect.Answer `json:"httpkey_answer"`
}

// keep is the answer for Guard.Result: whole when it fits, else without its body,
// else nothing.
func (c Config) keep(a effect.Answer, id retryproof.ID, state effect.State) []byte {
	if text, ok := c.fits(a); ok {
		return text
	}
	if a.BodyDropped || len(a.Body) == 0 {
		return nil
	}
	text, _ := c.fits(withoutBody(a, id, state))
	return text
}

func (c Config) fits(a effect.Answer) ([]byte, bool) {
	if len(a.Body) > c.MaxResult { // negative keeps nothing
		return nil, false
	}
	text, err := json.Marshal(keptAnswer{&a})
	if err != nil || len(text) > c.MaxResult {
		return nil, false
	}
	return text, true
}

// renderGuard is the default Config.Render.
func renderGuard(g effect.Guard) effect.Answer {
	var kept keptAnswer
	if g.State.Final() && len(g.Result) > 0 && json.Unmarshal(g.Result, &kept) == nil && kept.Answer != nil && kept.Answer.Status != 0 {
		return *kept.Answer
	}
	status := 0
	if g.State == effect.Failed {
		status = http.StatusUnprocessableEntity
	}
	return effect.Answer{Status: status, Header: map[string][]string{"Content-Type": {"application/json"}},
		Body: stateJSON(g.ID, g.State, "")}
}

// rendered is Config.Render with its defaults filled in.
func (c Config) rendered(g effect.Guard) effect.Answer {
	a := c.Render(g)
	if a.Status == 0 {
		a.Status = http.StatusAccepted
		if g.State.Final() {
			a.Status = http.StatusOK
		}
	}
	return a
}

// httpDate is t as an HTTP date, whole seconds rounded down.
func httpDate(t time.Time) string { return t.UTC().Format(http.TimeFormat) }
