package httpkey

import (
	"cmp"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
)

// Resolution is what a server says became of an intent's key.
type Resolution struct {
	// Fate is FateDone; FateDeclined, definitely not done under this key, forever;
	// FateAgain, not final, so ask later; or FateKept, when the question itself was
	// refused or not understood and asking again at once will not help. Only the
	// first two settle the intent.
	Fate Fate
	// State is the state that the answer names: SUCCEEDED, FAILED, VOID and what the
	// server has for the rest. Empty when there was no answer that could be read.
	State string
	// Status is the last answer's, 0 when none came.
	Status int
	// RetryAfter is for how long the server asks to wait.
	RetryAfter time.Duration
	// Body is the last answer's, up to 64 KiB.
	Body []byte
}

// Resolve asks the server what became of a pending intent, instead of sending it
// again (mission C2). The question is a request to the server's own call for it, with
// the caller's credentials, for example POST /payments/resolve; its method, URL and
// body are the server's business, and Resolve adds the intent's key. A server that
// knows nothing of the key voids it forever and says so: then a send that is still on
// its way runs nothing, and the next use of the intent makes a new key. A server that
// merely looks must not be asked this way.
//
// The name is that of WithIntent, or Entry.Intent of Pending. A question that gets no
// final answer is repeated like a send, up to MaxTries, TryTimeout and the context.
// What settles the intent is noted by compare-and-set: sends that are under way at the
// same time, in this process or another, neither lose what they hear nor undo it.
//
//	200 SUCCEEDED                                done
//	200 FAILED or DECLINED, 200 VOID, 409 void   declined: the key is let go
//	202, another state or none, 409, 408, 425, 429, 5xx, no answer
//	                                             again, and the key is kept
//	3xx, 401, 403, 404 and the rest of 4xx       kept: they are about the question
//
// A nil error means that an answer came; without one the error is Unknown. So is a
// refusal to ask, with CodeNotFound when the intent is not pending: it teaches
// nothing about the intent. When the journal cannot note a final answer, the Resolution
// is returned with the error, and matches its Outcome.
func (t *Transport) Resolve(ctx context.Context, intent string, question *http.Request) (Resolution, error) {
	body, err := t.bodyOf(question)
	if err != nil {
		return Resolution{}, notAsked(err, cmp.Or(retryproof.CodeOf(err), retryproof.CodeInvalid), "the question's body cannot be sent")
	}
	entry, err := t.pendingEntry(ctx, intent)
	if err != nil {
		return Resolution{}, err
	}
	question = question.WithContext(ctx)
	if given := question.Header.Values(HeaderKey); len(given) > 0 {
		if key, err := retryproof.KeyFromHeader(given); err != nil || key != entry.Key {
			return Resolution{}, notAsked(err, retryproof.CodeKeyReused, "the question brings another key than the intent has")
		}
	}
	// proven: the answer is about the key. unclear: a question takes no doubt away.
	c := &call{transport: t, request: question, body: body, entry: entry, proven: true, unclear: true}
	for try := 1; ; try++ {
		got, err := c.ask()
		pause, again := c.pause(try, got.Fate, got.RetryAfter, nil)
		if again && (got.Status != http.StatusAccepted || !t.config.ReturnAccepted) {
			if err = t.config.Clock.Sleep(ctx, pause); err == nil {
				continue
			}
		}
		if noteErr := c.note(got.Fate); noteErr != nil {
			return got, noteErr
		}
		if got.Status == 0 {
			return got, &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown, Err: err,
				Message: "the question has no answer; the key is kept", Hint: "ask again, or send the same intent again"}
		}
		return got, nil
	}
}

// pendingEntry finds an intent that has no definite answer yet.
func (t *Transport) pendingEntry(ctx context.Context, intent string) (Entry, error) {
	open, err := t.config.Journal.Pending(ctx)
	if err != nil {
		return Entry{}, notAsked(err, retryproof.CodeUnavailable, "the journal could not be read")
	}
	for _, e := range open {
		if e.Intent == intent {
			return e, nil
		}
	}
	return Entry{}, notAsked(nil, retryproof.CodeNotFound, "the journal has no such intent that is pending")
}

// notAsked says that nothing was asked, and so nothing learned.
func notAsked(err error, code retryproof.Code, why string) error {
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: code, Message: why + "; nothing was asked", Err: err}
}

// ask sends the question once and reads the whole answer. One that was cut is none.
func (c *call) ask() (Resolution, error) {
	sent, err := c.body.reader()
	if err != nil {
		return Resolution{Fate: FateAgain}, err
	}
	resp, err := c.once(sent)
	if err != nil {
		return Resolution{Fate: FateAgain}, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHeldBytes+1))
	closeBody(resp)
	if err != nil {
		return Resolution{Fate: FateAgain}, err
	}
	wait, _ := ParseRetryAfter(resp.Header.Get("Retry-After"), c.transport.config.Clock.Now())
	got := Resolution{Status: resp.StatusCode, RetryAfter: wait, Body: body[:min(len(body), maxHeldBytes)]}
	var code retryproof.Code
	if len(body) <= maxHeldBytes {
		got.State, code = stateAndCode(resp.Header.Get("Content-Type"), body)
	}
	got.Fate = resolveFate(got.Status, got.State, code)
	return got, nil
}

// stateAndCode reads the two members that count. What is not a JSON object by its
// type and by its text, such as the page of a hotel's network, has none.
func stateAndCode(contentType string, body []byte) (state string, code retryproof.Code) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return "", ""
	}
	members, err := ObjectMembers(body)
	if err != nil {
		return "", ""
	}
	for _, m := range members {
		text, _ := m.Text()
		switch m.Name {
		case "state":
			state = text
		case "code":
			code = retryproof.Code(text)
		}
	}
	return state, code
}

// resolveFate is what an answer to the question means for the key.
func resolveFate(status int, state string, code retryproof.Code) Fate {
	switch {
	case status == http.StatusConflict && code == retryproof.CodeVoid:
		return FateDeclined
	case status == http.StatusConflict, status == http.StatusAccepted, status == http.StatusRequestTimeout,
		status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500, status < 200:
		return FateAgain
	case status >= 300:
		return FateKept
	}
	switch effect.State(state) {
	case effect.Succeeded:
		return FateDone
	case effect.Failed, effect.Void, "DECLINED":
		return FateDeclined
	}
	return FateAgain
}
