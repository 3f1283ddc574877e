package payments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/resolve"
	"github.com/retryproof/retryproof/worker"
)

// System is the composed payments system of one process. Any number of processes
// may run on the same stores and queue.
type System struct {
	deps      Deps
	config    Config
	engine    *effect.Engine
	pay       http.Handler
	handler   http.Handler
	relays    []*outbox.Relay
	consumer  *inbox.Consumer
	notifier  *notify.Notifier
	resolver  *resolve.Resolver
	refunds   refunds
	readiness readiness
	sightings sightings
}

// New composes the system, or returns everything that is wrong at once.
func New(deps Deps, config Config) (*System, error) {
	if err := errors.Join(deps.validate(), config.Validate()); err != nil {
		return nil, err
	}
	s := &System{deps: deps.withDefaults(), config: config.withDefaults()}
	var err error
	engine := s.config.engine()
	engine.Clock, engine.Rand, engine.Observe = s.deps.Clock, s.deps.Rand, s.sawEffect
	s.engine, err = effect.New(s.deps.Store.Effects, engine)
	if err != nil {
		return nil, err
	}
	if err := s.composeLoops(); err != nil {
		return nil, err
	}
	keyed, err := httpkey.New(s.engine, httpkey.Config{
		Caller:   s.caller,
		Endpoint: func(*http.Request) string { return endpointPayments },
		Arrived:  s.deps.Arrived,
		Read:     s.readOrder,
		Render:   s.renderGuard,
		MaxBody:  s.config.MaxBody,
	})
	if err != nil {
		return nil, err
	}
	s.pay = keyed.Handler(http.HandlerFunc(s.create))
	s.handler = http.HandlerFunc(s.serve)
	return s, nil
}

func (s *System) composeLoops() error {
	var err error
	for range s.config.Relays {
		settings := s.config.relay()
		settings.Clock, settings.Rand, settings.Observe = s.deps.Clock, s.deps.Rand, s.sawRelay
		r, err := outbox.NewRelay(s.deps.Store.Outbox, s.deps.Queue, settings)
		if err != nil {
			return err
		}
		s.relays = append(s.relays, r)
	}
	s.notifier = notify.New(s.deps.Store.Notify, channelPush, s.deps.Push, notify.Config{Clock: s.deps.Clock, Rand: s.deps.Rand, Observe: s.sawIntent})
	s.consumer, err = inbox.NewConsumer(s.deps.Queue, s.deps.Store.Inbox, s.apply, inbox.Config{
		Clock: s.deps.Clock, Observe: s.sawDelivery, Parked: s.deps.Store.ParkedMessages, Consumer: consumerCredit, Log: s.deps.Log,
		After: func(ctx context.Context, d queue.Delivery) error { return s.notifier.Finish(ctx, d.ID) },
	})
	if err != nil {
		return err
	}
	questions := s.config.questions()
	questions.Alert, questions.Clock, questions.Rand, questions.Observe = s.alert, s.deps.Clock, s.deps.Rand, s.sawResolver
	questions.Ref = refIn
	ask, err := resolve.AskRemote(chargeRemote{s}, s.config.ask(s.deps.Clock))
	if err != nil {
		return err
	}
	s.resolver, err = resolve.New(s.engine, s.deps.Store.Due, ask, s.renderGuard, questions)
	if err != nil {
		return err
	}
	return s.composeRefunds()
}

// Handler serves the API.
func (s *System) Handler() http.Handler { return s.handler }

// RelayOnce publishes one batch of a relay, numbered from 0. Like WorkOnce,
// NotifyOnce, ResolveOnce and TidyOnce it is a step behind Loops, for whoever runs them by
// other means than worker.Run.
func (s *System) RelayOnce(ctx context.Context, relay int) (int, error) {
	return s.relays[relay].RunOnce(ctx)
}

// WorkOnce receives and applies one message.
func (s *System) WorkOnce(ctx context.Context) (int, error) { return s.consumer.RunOnce(ctx) }

// NotifyOnce sends a batch of the notifications that are due: those that failed before,
// and those that nobody has sent although their message is gone.
func (s *System) NotifyOnce(ctx context.Context) (int, error) { return s.notifier.RunOnce(ctx) }

// ResolveOnce asks about what is due: payments, then refunds.
func (s *System) ResolveOnce(ctx context.Context) (int, error) {
	payments, err := s.resolver.RunOnce(ctx)
	refunds, refundErr := s.refunds.resolver.RunOnce(ctx)
	return payments + refunds, errors.Join(err, refundErr)
}

// TidyOnce forgets one bounded batch of what may be forgotten.
func (s *System) TidyOnce(ctx context.Context) (int, error) {
	const batch = 1000
	now := s.deps.Clock.Now()
	claims, err := s.deps.Store.Janitor.ForgetClaims(ctx, now, now.Add(-s.config.AnswerTTL), batch)
	if err != nil {
		return claims, err
	}
	messages, err := s.deps.Store.Inbox.Forget(ctx, now.Add(-s.config.InboxRetention), batch)
	return claims + messages, err
}

// Loops are the system's loops, for worker.Run.
func (s *System) Loops() []worker.Loop {
	loops := []worker.Loop{
		{Name: "resolver", Step: s.ResolveOnce, Idle: s.config.ResolveEvery},
		{Name: "janitor", Step: s.TidyOnce, Idle: time.Minute},
		{Name: "notifications", Step: s.NotifyOnce, Idle: time.Second},
		{Name: "hop table", Step: s.flushSightings, Idle: 500 * time.Millisecond},
	}
	for i := range s.relays {
		loops = append(loops, worker.Loop{Name: fmt.Sprintf("relay %d", i+1), Step: s.relays[i].RunOnce, Idle: 20 * time.Millisecond})
	}
	for i := range s.config.Workers {
		loops = append(loops, worker.Loop{Name: fmt.Sprintf("worker %d", i+1), Step: s.WorkOnce, Idle: 20 * time.Millisecond})
	}
	return loops
}

// Flush writes what is only in memory; call it after the loops have ended.
func (s *System) Flush(ctx context.Context) error {
	_, err := s.flushSightings(ctx)
	return err
}

// OpenMerchant gives a merchant an opening balance, once.
func (s *System) OpenMerchant(ctx context.Context, merchantID, currency string, balance int64) error {
	if balance == 0 {
		return nil
	}
	ref := "opening:" + merchantID
	return s.deps.Store.Ledger.Post(ctx, []ledger.Posting{
		{Account: accountOpening, Currency: currency, Amount: -balance, Ref: ref},
		{Account: MerchantAccount(merchantID), Currency: currency, Amount: balance, Ref: ref},
	}, s.deps.Clock.Now())
}

func (s *System) sawEffect(o effect.Observation) {
	s.deps.Metrics.Add("retryproof_effects_total", 1, "what", o.What)
	id := retryproof.ID(o.GuardID)
	switch o.What {
	case effect.SawFirst:
		s.saw(id, hopAPI, "first requests")
	case effect.SawReplay, effect.SawPointer, effect.SawBusy:
		s.saw(id, hopAPI, "repeats answered")
	case effect.SawMismatch:
		s.saw(id, hopAPI, "mismatches refused")
	case effect.SawTakeover:
		s.saw(id, hopAPI, "takeovers")
	case effect.SawFenced:
		s.saw(id, hopLedger, "late writes refused")
	case effect.SawUnknown:
		s.saw(id, hopPSP, "no definite answer")
	}
}

func (s *System) sawRelay(what string, e retryproof.Event) {
	s.deps.Metrics.Add("retryproof_outbox_total", 1, "what", what)
	switch what {
	case outbox.SawSent:
		s.saw(paymentOf(e.ID), hopRelay, "sends")
	case outbox.SawFailed:
		s.saw(paymentOf(e.ID), hopRelay, "failed sends")
	case outbox.SawParked:
		s.setAside(hopRelay, e.ID)
	}
}

func (s *System) sawResolver(what string, g effect.Guard) {
	s.deps.Metrics.Add("retryproof_resolver_total", 1, "what", what)
	s.saw(g.ID, hopResolver, what)
}
