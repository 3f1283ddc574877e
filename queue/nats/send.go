package nats

import (
	"context"
	"errors"
	"fmt"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/queue"
)

// The headers of a message. Values are encoded by headerValue.
const (
	headerGroup = "Retryproof-Group"
	headerType  = "Retryproof-Type"
)

// Send implements [queue.Queue]. A context without a deadline is given 5 seconds.
func (q *Queue) Send(ctx context.Context, m queue.Message) error {
	switch {
	case m.ID == "":
		return retryproof.Refused(retryproof.CodePermanent, "the message has no id", nil)
	case m.Group == "":
		return retryproof.Refused(retryproof.CodePermanent, "the message has no group", nil)
	}
	if ctx.Err() != nil {
		return retryproof.Refused(retryproof.CodeUnavailable, "the message was not sent: its context had ended", context.Cause(ctx))
	}
	if err := q.ready(); err != nil {
		return err
	}
	msg := natsgo.NewMsg(q.cfg.Subject + "." + subjectToken(m.Group))
	msg.Data = m.Body
	msg.Header.Set(jetstream.MsgIDHeader, headerValue(m.ID))
	msg.Header.Set(jetstream.ExpectedStreamHeader, q.cfg.Stream)
	msg.Header.Set(headerGroup, headerValue(m.Group))
	msg.Header.Set(headerType, headerValue(m.Type))
	ctx, cancel := bounded(ctx, answerTimeout)
	defer cancel()
	// One attempt: what to do after a failure is the sender's to say.
	_, err := q.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	if most := q.stream.CachedInfo().Config.MaxBytes; streamIsFull(err) && most > 0 && int64(msg.Size()+storedAround) > most {
		return retryproof.Refused(retryproof.CodePermanent,
			fmt.Sprintf("the body has %d bytes and its headers %d, the whole stream holds %d", len(m.Body), msg.Size()-len(m.Body), most), err)
	}
	if streamIsGone(err) {
		q.restore(ctx) // for the next try
	}
	return sendError(err, len(m.Body), q.nc.MaxPayload())
}

// storedAround is the most bytes that a server keeps around a message: its own header
// of a record, and the partition in the subject. A message that would fit only a stream
// with nothing else in it counts as too large: waiting for that would hold its group
// forever.
const storedAround = 64

// streamIsGone reports that the server knows of no stream, or that nobody listens for
// it. Whether it is really gone is asked before anything is made again.
func streamIsGone(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, natsgo.ErrNoResponders) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// sendError says what a failed publish tells about the message.
func sendError(err error, bytes int, most int64) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, natsgo.ErrMaxPayload):
		return retryproof.Refused(retryproof.CodePermanent,
			fmt.Sprintf("the body has %d bytes, the server takes %d with headers", bytes, most), err)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, natsgo.ErrNoResponders):
		return retryproof.Refused(retryproof.CodeUnavailable, "no server holds the stream", err)
	case errors.Is(err, natsgo.ErrReconnectBufExceeded), errors.Is(err, natsgo.ErrConnectionDraining):
		// Both come before the first byte is written.
		return retryproof.Refused(retryproof.CodeUnavailable, "no connection to the NATS server", err)
	case errors.As(err, &api):
		return apiError(api, err)
	}
	return unknown("the server did not answer", err)
}

// Error codes of the JetStream API for which the client has no name.
const (
	codeInsufficientResources = 10023
	codeStreamNotMatch        = 10060
	codeStoreFailed           = 10077
	codeHeaderTooLarge        = 10097
)

// apiError sorts what a server says it did not do. A failed write ("store
// failed") is not among the certain ones, since a server that could not sync may
// have written, unless it is one that the server did not begin: the stream is full.
func apiError(api *jetstream.APIError, err error) error {
	if streamIsFull(api) {
		return retryproof.Refused(retryproof.CodeUnavailable, "the stream is full", err)
	}
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamMessageExceedsMaximum, codeHeaderTooLarge:
		return retryproof.Refused(retryproof.CodePermanent, "the message is larger than the stream takes", err)
	case codeInsufficientResources, codeStreamNotMatch,
		jetstream.JSErrCodeStreamNotFound, jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return retryproof.Refused(retryproof.CodeUnavailable, "the server did not take the message", err)
	}
	return unknown("the server did not store the message for certain", err)
}

// streamIsFull reads the text, the one thing that tells a full stream from a failed
// write: both have one code.
func streamIsFull(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeStoreFailed &&
		(api.Description == "maximum bytes exceeded" || api.Description == "maximum messages exceeded")
}

func unavailable(message string, err error) error {
	return retryproof.Refused(retryproof.CodeUnavailable, message, err)
}

func unknown(message string, err error) error {
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown, Message: message, Err: err}
}
