package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/psp"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/resolve"
)

// PSP is the card processor. Errors are *retryproof.Error: NotDone only when the
// card certainly was not and will not be charged by the call.
type PSP interface {
	// Charge charges the card, or gives what the key gave before. A definite
	// decline is a charge with state Declined, not an error.
	Charge(ctx context.Context, r psp.ChargeRequest) (psp.Charge, error)
	// Retrieve reads one charge by the PSP's id, as it is now.
	Retrieve(ctx context.Context, id string) (psp.Charge, error)
	// Find lists every charge with our reference. None is no proof that there is
	// none: a search may lag.
	Find(ctx context.Context, reference string) ([]psp.Charge, error)
	// Refund gives money of a charge back, or gives what the key gave before.
	Refund(ctx context.Context, r psp.RefundRequest) (psp.Refund, error)
	// FindRefunds lists every refund of a charge with our reference.
	FindRefunds(ctx context.Context, reference, chargeID string) ([]psp.Refund, error)
	// Webhook verifies a message of the PSP; now bounds its age. It does not keep
	// the payload.
	Webhook(payload []byte, header http.Header, now time.Time) (psp.WebhookEvent, error)
}

// Lister lists what the PSP did, page by page in a total order, made in [from, to): next
// is what to pass as after for the next page, empty at the end.
type Lister interface {
	// List lists charges.
	List(ctx context.Context, from, to time.Time, after string, limit int) (page []psp.Charge, next string, err error)
	// ListRefunds lists refunds.
	ListRefunds(ctx context.Context, from, to time.Time, after string, limit int) (page []psp.Refund, next string, err error)
}

// Metrics counts. Labels come in pairs of name and value.
type Metrics interface {
	// Add adds n, which is never negative, to the counter of that name and labels.
	Add(name string, n float64, labels ...string)
}

// Deps are what differs between production, the embedded default and the
// simulator.
type Deps struct {
	// Store is where everything is kept. Required.
	Store Stores
	// Queue carries the events from the relays to the workers. Required.
	Queue queue.Queue
	// PSP is the card processor. Required.
	PSP PSP
	// Push sends the notifications. Required.
	Push notify.Sender
	// Authenticate maps a bearer token to a caller; false refuses. Required.
	Authenticate func(token string) (caller string, ok bool)
	// Operator maps a bearer token to the name of a person who may look at every
	// payment and give verdicts; false refuses. Defaults to nobody.
	Operator func(token string) (name string, ok bool)
	// Arrived reads when a request arrived, from a stamp that a trusted proxy has set;
	// see deadline.Arrivals. Defaults to the moment at which the API sees it.
	Arrived func(*http.Request) time.Time
	// Lister lists the PSP's records for Reconcile. Defaults to none: Reconcile is an
	// error then.
	Lister Lister
	// Clock is the time. Defaults to clock.System().
	Clock clock.Clock
	// Rand makes tokens and jitter. Defaults to entropy.System().
	Rand entropy.Source
	// Log gets what a person should see. Defaults to slog.Default().
	Log *slog.Logger
	// Metrics counts what happened. Defaults to nothing.
	Metrics Metrics
}

func (d Deps) withDefaults() Deps {
	if d.Operator == nil {
		d.Operator = func(string) (string, bool) { return "", false }
	}
	if d.Clock == nil {
		d.Clock = clock.System()
	}
	if d.Rand == nil {
		d.Rand = entropy.System()
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	if d.Metrics == nil {
		d.Metrics = noMetrics{}
	}
	return d
}

func (d Deps) validate() error {
	var errs []error
	need := func(name string, missing bool) {
		if missing {
			errs = append(errs, fmt.Errorf("payments: Deps.%s is missing", name))
		}
	}
	s := d.Store
	need("Store", s.Effects == nil || s.Due == nil || s.Refunds == nil || s.DueRefunds == nil || s.Outbox == nil || s.Inbox == nil || s.ParkedEvents == nil || s.ParkedMessages == nil || s.Notify == nil || s.Ledger == nil || s.Hops == nil || s.RefundList == nil || s.Versions == nil || s.Janitor == nil)
	need("Queue", d.Queue == nil)
	need("PSP", d.PSP == nil)
	need("Push", d.Push == nil)
	need("Authenticate", d.Authenticate == nil)
	return errors.Join(errs...)
}

type noMetrics struct{}

func (noMetrics) Add(string, float64, ...string) {}

// Config sets the system. The zero value works.
type Config struct {
	// Deadline is how long a request may work, from its arrival. Defaults to 5 s.
	Deadline time.Duration
	// Margin is added to a lease before a takeover. Defaults to 1 s.
	Margin time.Duration
	// AnswerTTL is how long answers are kept with the key; the payment answers
	// afterwards. Defaults to 24 h.
	AnswerTTL time.Duration
	// PSPWindow is how long the PSP remembers an idempotency key. Defaults to
	// 24 h (Stripe: "at least 24 hours").
	PSPWindow time.Duration
	// PSPWindowMargin is taken off PSPWindow: from then on a charge is looked up
	// and not repeated. Defaults to 1 h.
	PSPWindowMargin time.Duration
	// Merchants are who can be paid. Defaults to anybody.
	Merchants []string
	// MaxBody bounds a request body in bytes. Defaults to 64 KiB.
	MaxBody int64
	// Relays is how many relay loops run. Defaults to 2.
	Relays int
	// RelayLease is how long a batch of events belongs to the relay that claimed it:
	// what a crashed relay held is sent again after it. Defaults to 15 s.
	RelayLease time.Duration
	// Workers is how many worker loops run. Defaults to 4.
	Workers int
	// ResolveEvery is the pause between two looks for what is due. Defaults to
	// 500 ms.
	ResolveEvery time.Duration
	// ResolveRate bounds a resolver's questions a second. The one of payments and the one
	// of refunds each have it, in every process: three processes may ask six times as
	// often. Defaults to 5.
	ResolveRate float64
	// PSPRate is how many requests a second the PSP takes at one endpoint; ResolveRate
	// must leave most of it to live payments. Defaults to 25 (Stripe's default;
	// docs.stripe.com/rate-limits).
	PSPRate float64
	// ResolveUnknownOnly turns the PENDING sweep off. Defaults to false.
	ResolveUnknownOnly bool
	// AlertAfter is how many questions without an answer call for a person.
	// Defaults to 10.
	AlertAfter int
	// QueueWindow is how long the queue remembers a dedup id; the hop table shows
	// it. Defaults to 5 min.
	QueueWindow time.Duration
	// HopsAskPSP lets the hop table count the charges at the PSP instead of in the
	// ledger. It costs one search per look. Defaults to false.
	HopsAskPSP bool
	// InboxRetention is how long message ids are remembered: longer than the
	// queue can keep a message. Defaults to 30 days.
	InboxRetention time.Duration
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.Deadline, 5*time.Second)
	set(&c.Margin, time.Second)
	set(&c.AnswerTTL, 24*time.Hour)
	set(&c.PSPWindow, 24*time.Hour)
	set(&c.PSPWindowMargin, time.Hour)
	set(&c.RelayLease, 15*time.Second)
	set(&c.ResolveEvery, 500*time.Millisecond)
	set(&c.QueueWindow, 5*time.Minute)
	set(&c.InboxRetention, 30*24*time.Hour)
	if c.MaxBody == 0 {
		c.MaxBody = 64 << 10
	}
	if c.Relays == 0 {
		c.Relays = 2
	}
	if c.Workers == 0 {
		c.Workers = 4
	}
	if c.ResolveRate == 0 {
		c.ResolveRate = 5
	}
	if c.AlertAfter == 0 {
		c.AlertAfter = 10
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.PSPWindow <= c.PSPWindowMargin+c.Deadline+c.Margin {
		errs = append(errs, fmt.Errorf("payments: PSPWindow > PSPWindowMargin + Deadline + Margin fails: %v ≤ %v + %v + %v: a charge could be repeated after the PSP forgot its key",
			c.PSPWindow, c.PSPWindowMargin, c.Deadline, c.Margin))
	}
	if c.MaxBody < 0 || c.Relays < 0 || c.Workers < 0 {
		errs = append(errs, fmt.Errorf("payments: MaxBody %d, Relays %d and Workers %d must not be negative", c.MaxBody, c.Relays, c.Workers))
	}
	if c.InboxRetention < 24*time.Hour {
		errs = append(errs, fmt.Errorf("payments: InboxRetention ≥ 24 h fails: %v: a message that the queue still keeps could be applied twice", c.InboxRetention))
	}
	return errors.Join(append(errs, c.engine().Validate(), c.relay().Validate(), c.questions().Validate(), c.ask(nil).Validate())...)
}

// engine and questions are the parts of the configuration that other packages
// judge.
func (c Config) engine() effect.Config {
	return effect.Config{Deadline: c.Deadline, Margin: c.Margin, AnswerTTL: c.AnswerTTL, Rerun: effect.RerunPending}
}

// relay bounds a send by a third of the lease, so that a batch is never sent on a
// lease that has ended.
func (c Config) relay() outbox.Config {
	return outbox.Config{Lease: c.RelayLease, SendTimeout: min(5*time.Second, c.RelayLease/3)}
}

func (c Config) questions() resolve.Config {
	return resolve.Config{Rate: c.ResolveRate, RemoteLimit: c.PSPRate, UnknownOnly: c.ResolveUnknownOnly, AlertAfter: c.AlertAfter}
}

// ask is how a resolver asks the PSP.
func (c Config) ask(now clock.Clock) resolve.AskConfig {
	return resolve.AskConfig{Window: c.PSPWindow, Margin: c.PSPWindowMargin, Clock: now}
}
