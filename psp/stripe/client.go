package stripe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/psp"
)

// DefaultTolerance is how far a webhook signature's time may be from now.
const DefaultTolerance = 5 * time.Minute

// defaultTimeout bounds a request whose context does not; idleConnections is how
// many connections stay open. Both are for the default HTTPClient.
const (
	defaultTimeout  = 80 * time.Second
	idleConnections = 64
)

// maxReference is the longest metadata value that Stripe keeps, in characters.
const maxReference = 500

// referenceKey is the metadata name of psp.ChargeRequest.Reference.
const referenceKey = "payment_id"

// Config says whom to call and with which secrets.
type Config struct {
	// BaseURL is where the API is, without /v1. It may have a path. Defaults to https://api.stripe.com.
	BaseURL string
	// APIKey is the secret key. Required.
	APIKey string
	// WebhookSecret verifies webhooks. Defaults to none: Webhook then refuses all.
	WebhookSecret string
	// Tolerance is how far a webhook signature's time may be from now, either way.
	// Defaults to DefaultTolerance.
	Tolerance time.Duration
	// HTTPClient sends the requests. Its transport must not retry; that of net/http
	// is kept from it. Defaults to a client of its own that gives
	// up after 80 s when the context does not end before.
	HTTPClient *http.Client
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.APIKey == "" {
		errs = append(errs, errors.New("stripe: APIKey is empty"))
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		errs = append(errs, errors.New("stripe: APIKey has a blank, a control or a non-ASCII character"))
	}
	if c.Tolerance < 0 {
		errs = append(errs, fmt.Errorf("stripe: Tolerance is %s: it must not be negative", c.Tolerance))
	}
	if c.BaseURL != "" {
		errs = append(errs, c.validateURL())
	}
	return errors.Join(errs...)
}

func (c Config) validateURL() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return errors.New("stripe: BaseURL must be an http or https URL with a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("stripe: BaseURL must have no user, query or fragment")
	case u.Scheme == "http" && strings.Contains(c.APIKey, "_live_"):
		return errors.New("stripe: a live key needs https: scheme = https fails for BaseURL")
	}
	return nil
}

// String keeps the secrets out of logs.
func (c Config) String() string {
	return fmt.Sprintf("stripe.Config{BaseURL: %q, Tolerance: %s}", c.BaseURL, c.Tolerance)
}

// GoString keeps the secrets out of %#v.
func (c Config) GoString() string { return c.String() }

// LogValue keeps the secrets out of slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Client charges cards. It is safe for concurrent use and keeps no state.
type Client struct {
	api       *stripesdk.Client
	secret    string
	tolerance time.Duration
}

// String keeps the secrets out of logs.
func (c *Client) String() string { return "stripe.Client" }

// GoString keeps the secrets out of %#v.
func (c *Client) GoString() string { return c.String() }

// New returns a client. Its errors are those of Validate.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = stripesdk.APIURL
	}
	if cfg.Tolerance == 0 {
		cfg.Tolerance = DefaultTolerance
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, err // Validate has refused it
	}
	// The library learns the host only: it reads the path of a request again when the
	// answer is there, and gives up on one that does not start with /v1.
	host := &url.URL{Scheme: base.Scheme, Host: base.Host}
	backends := stripesdk.NewBackendsWithConfig(&stripesdk.BackendConfig{
		EnableTelemetry:   stripesdk.Bool(false),
		HTTPClient:        onceClient(cfg.HTTPClient, prefixOf(base)),
		LeveledLogger:     &stripesdk.LeveledLogger{Level: stripesdk.LevelNull},
		MaxNetworkRetries: stripesdk.Int64(0),
		URL:               stripesdk.String(host.String()),
	})
	return &Client{
		api:    stripesdk.NewClient(cfg.APIKey, stripesdk.WithBackends(backends)),
		secret: cfg.WebhookSecret, tolerance: cfg.Tolerance,
	}, nil
}

// prefixOf is the path below which the API is. A /v1 at its end, given by mistake, is
// dropped: every path of the API has its own.
func prefixOf(base *url.URL) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(base.EscapedPath(), "/"), "/v1"), "/")
}

// onceClient returns a copy of the client that sends each request at most once, below
// the prefix, and follows no redirects.
func onceClient(c *http.Client, prefix string) *http.Client {
	out := &http.Client{Timeout: defaultTimeout}
	if c != nil {
		*out = *c
	}
	base := out.Transport
	if base == nil {
		base = http.DefaultTransport
		if t, ok := base.(*http.Transport); ok {
			t = t.Clone()
			t.MaxIdleConnsPerHost = idleConnections // its own 2 reconnects all the time
			base = t
		}
	}
	out.Transport = once{base, prefix}
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return out
}

// once hides the Idempotency-Key from net/http. A transport that sees this header
// takes a POST for safe to repeat, and does repeat it, silently, when a reused
// connection breaks under it. Then "connection refused" could be about the second
// send while the first had arrived, and NotDone would be a lie. The transport looks
// for the canonical spelling only, and on the wire the case does not matter. What
// was never written at all is still sent again, which is safe.
type once struct {
	base http.RoundTripper
	// prefix is the escaped path of Config.BaseURL, without a slash at its end.
	prefix string
}

// RoundTrip implements http.RoundTripper. The request itself stays as it is.
func (t once) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	if keys, ok := sent.Header["Idempotency-Key"]; ok {
		delete(sent.Header, "Idempotency-Key")
		sent.Header["idempotency-key"] = keys
	}
	if t.prefix != "" {
		below, err := url.Parse(t.prefix + r.URL.EscapedPath())
		if err != nil {
			return nil, fmt.Errorf("stripe: the path below BaseURL: %w", err)
		}
		sent.URL.Path, sent.URL.RawPath = below.Path, below.RawPath
	}
	return t.base.RoundTrip(sent)
}

// Charge creates and confirms a PaymentIntent in one request. A decline is a Charge
// with State Declined and no error. The errors are listed at the package.
func (c *Client) Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error) {
	if err := check(ctx, r); err != nil {
		return psp.Charge{}, err
	}
	p := &stripesdk.PaymentIntentCreateParams{
		Amount:                stripesdk.Int64(r.Amount),
		Currency:              stripesdk.String(strings.ToLower(r.Currency)),
		PaymentMethod:         stripesdk.String(r.Method),
		Confirm:               stripesdk.Bool(true),
		ErrorOnRequiresAction: stripesdk.Bool(true),
		Metadata:              map[string]string{referenceKey: r.Reference},
		AutomaticPaymentMethods: &stripesdk.PaymentIntentCreateAutomaticPaymentMethodsParams{
			Enabled: stripesdk.Bool(true), AllowRedirects: stripesdk.String("never"),
		},
	}
	p.SetIdempotencyKey(r.Key)
	intent, err := c.api.V1PaymentIntents.Create(ctx, p)
	if err == nil {
		return chargeOf(intent, replayed(intent.LastResponse)), nil
	}
	if declined, ok := declineOf(err, r); ok {
		return declined, nil
	}
	return psp.Charge{}, classify(ctx, err)
}

// check refuses what must not be sent.
func check(ctx context.Context, r psp.ChargeRequest) error {
	if cause := context.Cause(ctx); cause != nil {
		return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeTooLate, Message: "the time was up before the PSP was asked", Err: cause}
	}
	var problem string
	switch {
	case r.Key == "" || len(r.Key) > 255 || r.Key != strings.TrimSpace(r.Key):
		problem = "the key must have 1 to 255 bytes and no blanks around it"
	case strings.ContainsFunc(r.Key, func(c rune) bool { return c < ' ' || c >= 0x7f }):
		problem = "the key must be visible ASCII"
	case r.Reference == "" || len([]rune(r.Reference)) > maxReference:
		problem = "the reference must have 1 to 500 characters"
	case r.Amount <= 0:
		problem = "the amount must be positive"
	case len(r.Currency) != 3:
		problem = "the currency must have three letters"
	case r.Method == "":
		problem = "the payment method is empty"
	default:
		return nil
	}
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeInvalid, Message: "the charge was not sent: " + problem}
}

// Find returns every PaymentIntent that carries the reference, newest first.
// Stripe's search is eventually consistent: that nothing is found, or one where
// there are two, is no proof. Errors are Unknown.
func (c *Client) Find(ctx context.Context, reference string) ([]psp.Charge, error) {
	if err := checkLookup(ctx, reference, "the reference is empty"); err != nil {
		return nil, err
	}
	p := &stripesdk.PaymentIntentSearchParams{}
	p.Query = "metadata['" + referenceKey + "']:" + quote(reference)
	p.Limit = stripesdk.Int64(100)
	var out []psp.Charge
	for intent, err := range c.api.V1PaymentIntents.Search(ctx, p).All(ctx) {
		if err != nil {
			return nil, lookup(classify(ctx, err))
		}
		if got := chargeOf(intent, false); got.Reference == reference { // the search's words are not exact everywhere
			out = append(out, got)
		}
	}
	return out, nil
}

// quote writes a value in Stripe's search language.
func quote(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// Retrieve returns the PaymentIntent with the given id: Charge.ID. Errors are
// Unknown; one that does not exist has the code not-found.
func (c *Client) Retrieve(ctx context.Context, id string) (psp.Charge, error) {
	if err := checkLookup(ctx, id, "the charge's id is empty"); err != nil {
		return psp.Charge{}, err
	}
	intent, err := c.api.V1PaymentIntents.Retrieve(ctx, id, nil)
	if err != nil {
		return psp.Charge{}, lookup(classify(ctx, err))
	}
	return chargeOf(intent, false), nil
}

// chargeOf reads a PaymentIntent. One that waits for a confirmation or for its
// owner is Processing: it may still charge. One that is canceled never will.
func chargeOf(i *stripesdk.PaymentIntent, wasReplayed bool) psp.Charge {
	c := psp.Charge{
		ID: i.ID, Reference: i.Metadata[referenceKey], Amount: i.Amount, Currency: strings.ToUpper(string(i.Currency)),
		State: psp.Processing, Created: time.Unix(i.Created, 0).UTC(), Replayed: wasReplayed,
	}
	switch i.Status {
	case stripesdk.PaymentIntentStatusSucceeded:
		c.State = psp.Succeeded
	case stripesdk.PaymentIntentStatusCanceled:
		c.State, c.DeclineCode = psp.Declined, "canceled"
	case stripesdk.PaymentIntentStatusRequiresPaymentMethod:
		if i.LastPaymentError != nil {
			c.State, c.DeclineCode = psp.Declined, declineCode(i.LastPaymentError)
		}
	}
	return c
}

func replayed(r *stripesdk.APIResponse) bool {
	return r != nil && r.Header.Get("Idempotent-Replayed") == "true"
}
