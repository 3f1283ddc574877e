package emulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/retryproof/retryproof/clock"
)

// Defaults of [Config].
const (
	DefaultWebhookSecret = "whsec_emulator"
	DefaultKeyMemory     = 24 * time.Hour
	DefaultAPIVersion    = "2026-03-25.dahlia"
)

// Config says how the company behaves. The zero value works.
type Config struct {
	// Clock tells the time and waits out delay faults. Defaults to clock.System().
	Clock clock.Clock
	// Journal keeps every accepted change. Defaults to none: memory only.
	Journal Journal
	// Deliverer sends webhooks. Defaults to none: webhooks stay due.
	Deliverer Deliverer
	// WebhookSecret signs webhooks. Defaults to DefaultWebhookSecret.
	WebhookSecret string
	// KeyMemory is how long after its first use a key is remembered. Defaults to 24 h.
	KeyMemory time.Duration
	// SearchLag is how old a PaymentIntent must be before search shows it.
	// Defaults to 0.
	SearchLag time.Duration
	// WebhookTimeout bounds one delivery. Defaults to 10 s.
	WebhookTimeout time.Duration
	// WebhookBackoff is the wait after the first failed delivery; it doubles with
	// each further failure. Defaults to 1 s.
	WebhookBackoff time.Duration
	// WebhookMaxBackoff is the longest wait between deliveries. Defaults to 1 min.
	WebhookMaxBackoff time.Duration
	// WebhookBatch is how many webhooks one RunOnce tries. Defaults to 100.
	WebhookBatch int
	// MaxAmount is the largest amount, in minor units; Stripe's own is 99,999,999
	// for most currencies. Defaults to no limit.
	MaxAmount int64
	// APIVersion is the version that webhooks name. Defaults to DefaultAPIVersion.
	APIVersion string
}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"KeyMemory", c.KeyMemory}, {"SearchLag", c.SearchLag}, {"WebhookTimeout", c.WebhookTimeout},
		{"WebhookBackoff", c.WebhookBackoff}, {"WebhookMaxBackoff", c.WebhookMaxBackoff},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("emulator: %s is %s: it must not be negative", d.name, d.value))
		}
	}
	d := c.withDefaults()
	if d.WebhookBackoff > d.WebhookMaxBackoff {
		errs = append(errs, fmt.Errorf("emulator: WebhookBackoff <= WebhookMaxBackoff fails: %s > %s", d.WebhookBackoff, d.WebhookMaxBackoff))
	}
	if c.WebhookBatch < 0 {
		errs = append(errs, fmt.Errorf("emulator: WebhookBatch is %d: it must not be negative", c.WebhookBatch))
	}
	if c.MaxAmount < 0 {
		errs = append(errs, fmt.Errorf("emulator: MaxAmount is %d: it must not be negative", c.MaxAmount))
	}
	return errors.Join(errs...)
}

// String keeps the webhook secret out of logs.
func (c Config) String() string {
	d := c.withDefaults()
	return fmt.Sprintf("emulator.Config{KeyMemory: %s, SearchLag: %s, APIVersion: %s}", d.KeyMemory, d.SearchLag, d.APIVersion)
}

// GoString keeps the webhook secret out of %#v.
func (c Config) GoString() string { return c.String() }

// LogValue keeps the webhook secret out of slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.WebhookSecret == "" {
		c.WebhookSecret = DefaultWebhookSecret
	}
	if c.APIVersion == "" {
		c.APIVersion = DefaultAPIVersion
	}
	if c.WebhookBatch == 0 {
		c.WebhookBatch = 100
	}
	for _, d := range []struct {
		value *time.Duration
		byDef time.Duration
	}{
		{&c.KeyMemory, DefaultKeyMemory},
		{&c.WebhookTimeout, 10 * time.Second},
		{&c.WebhookBackoff, time.Second},
		{&c.WebhookMaxBackoff, max(time.Minute, c.WebhookBackoff)},
	} {
		if *d.value == 0 {
			*d.value = d.byDef
		}
	}
	return c
}

// Core is the payment company. Its methods may be called from many goroutines.
// The lock guards the maps only: it is never held across the journal, the clock
// or a delivery, so that a simulator may suspend a call in any of them.
type Core struct {
	cfg    Config
	clock  clock.Clock
	signer *signer

	mu       sync.Mutex
	account  string
	seq      int64 // the last number given out
	requests int64 // the last request id given out
	keys     map[string]*keyMemory
	fresh    []freshKey // those whose answer is kept, in the order of their records
	intents  map[string]*intent
	refunds  map[string]*refund
	events   map[string]*event
	methods  map[string]string // method → decline code, "" approves
	// The ids in the order of their numbers: the order of every listing.
	intentOrder, refundOrder, eventOrder []numbered
	// owing are the events that may still be owed; due drops the others.
	owing []numbered
	// byReference finds PaymentIntents by the metadata that everybody searches for.
	byReference map[string][]numbered
	// refundsOf finds refunds by their PaymentIntent.
	refundsOf map[string][]numbered

	executing map[string]fingerprint // keys whose first request has no result yet
	busy      map[string]bool        // PaymentIntents that a request is changing
	counts    map[string]*keyCount
	faults    []*armedFault
}

// keyMemory is what the company remembers of an idempotency key.
type keyMemory struct {
	FirstUse    time.Time
	Fingerprint fingerprint
	// Life counts how often the key was new: 1, then 2 after it was forgotten.
	Life   int
	Status int
	Body   []byte
	said   any // what Body says
}

type keyCount struct{ requests, replays int }

type numbered struct {
	seq int64
	id  string
}

// New starts the company: it checks the configuration and rebuilds the state from
// the journal. Its errors are those of Validate and of the journal, and a record
// that this version cannot read.
func New(ctx context.Context, cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Core{
		cfg: cfg, clock: cfg.Clock, signer: newSigner(cfg.WebhookSecret),
		keys: map[string]*keyMemory{}, intents: map[string]*intent{}, refunds: map[string]*refund{},
		events: map[string]*event{}, methods: map[string]string{},
		executing: map[string]fingerprint{}, busy: map[string]bool{}, counts: map[string]*keyCount{},
		byReference: map[string][]numbered{}, refundsOf: map[string][]numbered{},
	}
	if cfg.Journal == nil {
		return c, nil
	}
	if err := cfg.Journal.Replay(ctx, c.rebuild); err != nil {
		return nil, fmt.Errorf("emulator: rebuild from the journal: %w", err)
	}
	return c, nil
}

// remembered returns what is known of a key at the given time, nil when it is new
// or forgotten. The caller holds the lock.
func (c *Core) remembered(key string, now time.Time) *keyMemory {
	k := c.keys[key]
	if k == nil || k.Status == 0 || !now.Before(k.FirstUse.Add(c.cfg.KeyMemory)) {
		return nil
	}
	return k
}

// freshKey is a key in the life that began at a time.
type freshKey struct {
	key   string
	since time.Time
}

// forgetAnswers drops the answers of keys that are forgotten by now; how often a key
// was new stays. Keys are recorded nearly in the order of their first use; one that is
// out of order goes a little late. The caller holds the lock.
func (c *Core) forgetAnswers(now time.Time) {
	for len(c.fresh) > 0 {
		oldest := c.fresh[0]
		if now.Before(oldest.since.Add(c.cfg.KeyMemory)) {
			return
		}
		if k := c.keys[oldest.key]; k.FirstUse.Equal(oldest.since) {
			// A new one, since a request may be replaying the old one at this moment.
			c.keys[oldest.key] = &keyMemory{FirstUse: k.FirstUse, Life: k.Life}
		}
		c.fresh = c.fresh[1:]
	}
}

// lifeOf is which life of the key begins now. The caller holds the lock.
func (c *Core) lifeOf(key string) int {
	if k := c.keys[key]; k != nil {
		return k.Life + 1
	}
	return 1
}

func (c *Core) nextSeq() int64 {
	c.seq++
	return c.seq
}
