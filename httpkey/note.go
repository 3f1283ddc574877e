package httpkey

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/retryproof/retryproof"
)

// doubtful reports an answer after which the send may have been done, or may yet
// be. A 5xx always is: whoever wrote it may not know what became of the request
// behind it, whatever its code says.
func doubtful(fate Fate, status int) bool {
	switch {
	case fate == FateDone || fate == FateDeclined:
		return false
	case status >= 500:
		return true
	case fate == FateRefused:
		return false
	}
	switch status {
	case http.StatusTooEarly, http.StatusTooManyRequests, // stopped in front of the handler
		http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusMisdirectedRequest,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return false
	}
	return true
}

// note writes to the journal what the last answer changes. Another call of the same
// intent may have ended meanwhile: then it is judged again on what stands. The
// journal's write goes on when the caller's context has ended; a definite answer
// must not be lost.
func (c *call) note(fate Fate) error {
	ctx, config := context.WithoutCancel(c.request.Context()), c.transport.config
	for stands := c.entry; ; {
		next := c.after(stands, fate)
		if next == stands {
			return nil
		}
		next.UpdatedAt = config.Clock.Now()
		got, saved, err := config.Journal.Save(ctx, next)
		switch {
		case err != nil:
			return noteError(fate, err)
		case saved, got.Key != stands.Key, got.Attempt != stands.Attempt: // forgotten, or another key's turn
			return nil
		case got.Revision == stands.Revision:
			return noteError(fate, errors.New("the journal changed nothing and gave no reason"))
		}
		stands = got
	}
}

// after is the entry that stands as this call's answer leaves it. Done is never
// left. A refusal speaks of its own send, so it lets the key go only while no other
// is in doubt. A decline speaks of the key; without the server's mark that it is
// on record it may be some proxy's, and does not count against a call that was
// under way at the same time.
func (c *call) after(e Entry, fate Fate) Entry {
	switch {
	case e.State == EntryDone:
		return e
	case fate == FateDone:
		e.State, e.Doubtful = EntryDone, 0
		return e
	case e.State != EntryOpen:
		return e
	case fate == FateDeclined && (c.proven || e.Revision == c.entry.Revision):
		e.State, e.Doubtful = EntryLetGo, 0
		return e
	}
	if !c.unclear {
		e.Doubtful = max(e.Doubtful-1, 0)
	}
	if fate == FateRefused && e.Doubtful == 0 {
		e.State = EntryLetGo
	}
	return e
}

// noteError tells what the answer was although the journal does not know it: the
// entry stays open, and sending the intent again asks the server.
func noteError(fate Fate, err error) error {
	out := &retryproof.Error{Code: retryproof.CodeUnavailable, Err: err,
		Message: "the answer is definite, but the journal could not note it", Hint: "send the same intent again"}
	switch fate {
	case FateDone:
		out.Outcome = retryproof.Done
	case FateDeclined, FateRefused:
		out.Outcome = retryproof.NotDone
	}
	return out
}

// hold reads an answer that is announced as a small one to its end, and puts it
// back. One that was cut is an error, as if it had not come.
func hold(resp *http.Response) (whole bool, err error) {
	if resp.Body == http.NoBody {
		return true, nil
	}
	if resp.ContentLength < 0 || resp.ContentLength > maxHeldBytes {
		return false, nil
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxHeldBytes+1))
	if err == nil && int64(len(head)) < resp.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return false, err
	}
	rest := resp.Body
	resp.Body = &splicedBody{Reader: io.MultiReader(bytes.NewReader(head), rest), Closer: rest}
	return len(head) <= maxHeldBytes, nil
}

// endingBody tells when a body has come to its end.
type endingBody struct {
	io.ReadCloser
	ended func() error

	mu   sync.Mutex // held by a Read
	over bool       // ended or broken
	err  error      // of ended
}

// Read reads, and returns ended's error in place of io.EOF.
func (b *endingBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.over {
		b.over = true
		if err == io.EOF {
			b.err = b.ended()
		}
	}
	if err == io.EOF && b.err != nil {
		err = b.err
	}
	return n, err
}

// Close looks for the end first, for callers who stop reading where their JSON
// stops; not while a Read waits, which it is there to stop.
func (b *endingBody) Close() error {
	over := true
	if b.mu.TryLock() {
		over = b.over
		b.mu.Unlock()
	}
	if !over {
		_, _ = io.CopyN(io.Discard, b, maxHeldBytes) // Read notes how it ends
	}
	err := b.ReadCloser.Close()
	if b.mu.TryLock() {
		err = errors.Join(err, b.err)
		b.mu.Unlock()
	}
	return err
}

// cancelBody ends the send's context with its body.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close closes the body and frees the send's timer.
func (b *cancelBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
