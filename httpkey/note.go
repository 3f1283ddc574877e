package httpkey

import (
	"bytes"
	"cmp"
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
// journal's write goes on when the caller's context has ended, for as long as a send
// may take; a definite answer must not be lost.
func (c *call) note(fate Fate) error {
	config := c.transport.config
	ctx, cancel := config.Clock.WithTimeout(context.WithoutCancel(c.request.Context()), config.TryTimeout)
	defer cancel()
	for stands := c.entry; ; {
		next := c.after(stands, fate)
		if next == stands {
			return nil
		}
		next.UpdatedAt = config.Clock.Now()
		got, saved, err := config.Journal.Save(ctx, next)
		switch {
		case err != nil:
			return c.noteError(fate, err)
		case saved, got.Key != stands.Key, got.Attempt != stands.Attempt: // forgotten, or another key's turn
			return nil
		case got.Revision == stands.Revision:
			return c.noteError(fate, errors.New("the journal changed nothing and gave no reason"))
		}
		stands = got
	}
}

// after is the entry that stands as this call's answer leaves it. Done is never
// left. A refusal speaks of its own send, so it lets the key go only while no other
// is in doubt. A decline speaks of the key when it has the server's mark that it is
// on record; without, it may be some proxy's ("your quota is used up", 402), and counts
// like a refusal.
func (c *call) after(e Entry, fate Fate) Entry {
	switch {
	case e.State == EntryDone:
		return e
	case fate == FateDone:
		e.State, e.Doubtful = EntryDone, 0
		return e
	case e.State != EntryOpen:
		return e
	case fate == FateDeclined && c.proven:
		e.State, e.Doubtful = EntryLetGo, 0
		return e
	}
	if !c.unclear {
		e.Doubtful = max(e.Doubtful-1, 0)
	}
	if (fate == FateRefused || fate == FateDeclined) && e.Doubtful == 0 {
		e.State = EntryLetGo
	}
	return e
}

// noteError tells what the answer was although the journal does not know it: the
// entry stays open, and sending the intent again asks the server.
func (c *call) noteError(fate Fate, err error) error {
	out := &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnavailable, Err: err,
		Message: "the journal could not note the answer", Hint: "send the same intent again"}
	switch alone := !c.unclear && c.entry.Doubtful <= 1; {
	case fate == FateDone:
		out.Outcome = retryproof.Done
	case fate == FateDeclined && c.proven, (fate == FateDeclined || fate == FateRefused) && alone:
		out.Outcome = retryproof.NotDone
	}
	return out
}

// atEnd is the fate of an answer whose body has ended. A streamed one may say only in
// its trailer that it is on record: when its header left, nobody knew.
func (c *call) atEnd(fate Fate, resp *http.Response) Fate {
	if c.proven || !marked(resp.Trailer) {
		return fate
	}
	c.proven = true
	if fate == FateDone || fate == FateDeclined { // the body was looked into
		return fate
	}
	told := *resp
	told.Header, told.Body = resp.Header.Clone(), http.NoBody
	told.Header.Set(HeaderReplayed, "true")
	return c.transport.config.Fate(&told, c.problem)
}

// hold reads an answer that is announced as a small one to its end, and puts it
// back. One that was cut is an error, as if it had not come.
func hold(resp *http.Response) (whole bool, err error) {
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
		err = cmp.Or(b.err, err)
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
