package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/push"
)

// Client sends notifications to an emulator over HTTP. It sends once per call and
// never retries by itself.
type Client struct {
	// BaseURL is where the emulator's Handler is served, without the "/send".
	// Required.
	BaseURL string
	// HTTP is the client that sends; redirects are not followed. Defaults to one
	// without settings.
	HTTP *http.Client
	// Clock measures the timeout. Defaults to the machine's clock.
	Clock clock.Clock
	// Timeout bounds one send. Defaults to 5 s.
	Timeout time.Duration
}

// Send sends one notification. The error is NotDone when the request certainly
// never reached the provider or was refused by it, otherwise Unknown.
func (c *Client) Send(ctx context.Context, n push.Notification) error {
	if err := Validate(n); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return retryproof.Refused(retryproof.CodeUnavailable, "the context had ended before the send", context.Cause(ctx))
	}
	timed, cancel := c.clock().WithTimeout(ctx, c.timeout())
	defer cancel()
	request, err := c.request(timed, n)
	if err != nil {
		return retryproof.Refused(retryproof.CodeUnavailable, "the push provider's address is invalid", err)
	}
	response, err := c.sender().Do(request)
	if err != nil {
		return sendError(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 200 && response.StatusCode < 300 {
		return nil
	}
	return answerError(response)
}

func (c *Client) request(ctx context.Context, n push.Notification) (*http.Request, error) {
	address, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, err
	}
	if (address.Scheme != "http" && address.Scheme != "https") || address.Host == "" {
		return nil, errors.New("the base URL is not http://host or https://host")
	}
	body, err := json.Marshal(sendRequest{To: n.To, ReplaceID: n.ReplaceID, Title: n.Title, Body: n.Body})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.JoinPath("send").String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

// sendError: a connection that was never made carried nothing; after that nobody
// knows.
func sendError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return retryproof.Refused(retryproof.CodeUnavailable, "the push provider cannot be reached", err)
	}
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown, Message: "the push provider did not answer", Err: err}
}

// answerError: 4xx and a 503 that says so are refusals from before the effect. Only some
// of them are about the notification or the person, so that no other try can help; a
// wrong address or a missing right is about the provider and is mended one day.
func answerError(response *http.Response) error {
	var problem struct {
		Code   retryproof.Code `json:"code"`
		Detail string          `json:"detail"`
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxRequestBytes))
	if err == nil {
		_ = json.Unmarshal(data, &problem) // an answer that is no problem document has no code
	}
	out := &retryproof.Error{Code: problem.Code, Message: "the push provider answered " + response.Status}
	if problem.Detail != "" {
		out.Message += ": " + problem.Detail
	}
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); err == nil {
		out.RetryAfter = time.Duration(seconds) * time.Second
	}
	status := response.StatusCode
	switch {
	case status == http.StatusTooManyRequests:
		out.Outcome, out.Code = retryproof.NotDone, retryproof.CodeTooMany
	case status == http.StatusBadRequest, status == http.StatusGone, status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		out.Outcome = retryproof.NotDone
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout:
		out.Outcome, out.Code = retryproof.NotDone, retryproof.CodeUnavailable
	case status == http.StatusServiceUnavailable && problem.Code == retryproof.CodeUnavailable:
		out.Outcome = retryproof.NotDone
	}
	if out.Code == "" {
		out.Code = retryproof.CodeUnknown
		if out.Outcome == retryproof.NotDone {
			out.Code = retryproof.CodePermanent
		}
	}
	return out
}

func (c *Client) sender() *http.Client {
	own := http.Client{}
	if c.HTTP != nil {
		own = *c.HTTP
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

func (c *Client) clock() clock.Clock {
	if c.Clock == nil {
		return clock.System()
	}
	return c.Clock
}

func (c *Client) timeout() time.Duration {
	if c.Timeout <= 0 {
		return 5 * time.Second
	}
	return c.Timeout
}
