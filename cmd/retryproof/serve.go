package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/worker"
)

// serveCommand runs the system.
type serveCommand struct {
	Listen    string `help:"Address to listen on, host:port." default:"127.0.0.1:8080"`
	Data      string `help:"Folder of the embedded parts: ledger, queue, and the outside companies' own files." default:".retryproof" type:"path"`
	Store     string `help:"Ledger and key store: postgres://…, sqlite:PATH or memory. Embedded SQLite by default." placeholder:"URL"`
	Queue     string `help:"Queue: nats://… or memory. Embedded NATS JetStream by default." placeholder:"URL"`
	Stream    string `help:"JetStream stream of this ledger's events. Ledgers that share a NATS server need one each: workers take every event of their stream." default:"RETRYPROOF_EVENTS"`
	PSP       string `name:"psp" help:"Card processor: https://api.stripe.com or another server of Stripe's API; keys from STRIPE_API_KEY and STRIPE_WEBHOOK_SECRET. Embedded emulator by default." placeholder:"URL"`
	Push      string `help:"Push provider: the /outside/push of another serve. Embedded emulator by default." placeholder:"URL"`
	Tokens    string `help:"JSON file of bearer tokens and their callers. Two demo buyers by default, on loopback only." placeholder:"FILE"`
	Operators string `help:"JSON file of operators' bearer tokens and their names. The demo knows one, demo-operator." placeholder:"FILE"`
	proxyFlags
	Deadline  time.Duration `help:"How long a request may work, in ms, s, m, h or d." default:"5s"`
	Margin    time.Duration `help:"Clock margin of takeovers, in ms, s, m, h or d." default:"1s"`
	AnswerTTL time.Duration `name:"answer-ttl" help:"How long an answer is kept with its key, in ms, s, m, h or d, such as 30d; the payment answers afterwards." default:"24h"`
	Workers   int           `help:"Worker loops." default:"4"`
	Relays    int           `help:"Relay loops." default:"2"`
	LogLevel  string        `name:"log-level" help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info"`
}

// maxLoops bounds --workers and --relays: more of them only wait for each other, and a
// typing error should not take all memory.
const maxLoops = 1000

// minWork is the shortest --deadline and --margin. Below it not even a healthy ledger
// answers in time, and every payment would be refused.
const minWork = 100 * time.Millisecond

// demoOpening is what the demo merchants start with, in cents.
var demoOpening = []struct {
	merchant string
	balance  int64
}{{"m1", 12_000}, {"m2", 0}}

// Run serves until ctx ends, then drains.
func (c *serveCommand) Run(ctx context.Context, out output) error {
	tokens := demoTokens()
	if c.Tokens != "" {
		var err error
		if tokens, err = readTokens("tokens", c.Tokens); err != nil {
			return err
		}
	}
	if c.Operators != "" {
		operators, err := readTokens("operators", c.Operators)
		if err != nil {
			return err
		}
		tokens.operators = operators.entries
	}
	if err := errors.Join(tokens.checkListen(c.Listen), c.check()); err != nil {
		return misuse{err}
	}
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // kong checked the word
	log := slog.New(slog.NewTextHandler(out.stderr, &slog.HandlerOptions{Level: level}))
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	unlock, err := lockFolder(c.Data)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w (is another one running? choose another port)", c.Listen, err)
	}
	site, err := c.compose(ctx, log, tokens, "http://"+listener.Addr().String())
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer site.close(log)
	fmt.Fprintf(out.stdout, "retryproof is ready: http://%s  (data in %s; Ctrl-C stops it)\n", listener.Addr(), c.Data)
	return site.run(ctx, log, listener)
}

// check refuses flags that would silently mean something else.
func (c *serveCommand) check() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"deadline", c.Deadline}, {"margin", c.Margin}, {"answer-ttl", c.AnswerTTL}} {
		switch {
		case f.value <= 0:
			errs = append(errs, fmt.Errorf("--%s %v must be positive", f.name, f.value))
		case f.value < minWork:
			errs = append(errs, fmt.Errorf("--%s ≥ %v fails: %v", f.name, minWork, f.value))
		}
	}
	if len(errs) == 0 {
		if err := (payments.Config{Deadline: c.Deadline, Margin: c.Margin, AnswerTTL: c.AnswerTTL}).Validate(); err != nil {
			errs = append(errs, inFlags(err))
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"workers", c.Workers}, {"relays", c.Relays}} {
		if n.value < 1 || n.value > maxLoops {
			errs = append(errs, fmt.Errorf("--%s %d must be 1 to %d", n.name, n.value, maxLoops))
		}
	}
	if c.Queue == "memory" && c.Store != "memory" {
		errs = append(errs, errors.New("--queue memory forgets its messages when the process ends, and a durable --store would have deleted their events: give --store memory too, or a durable queue"))
	}
	if c.Store == "memory" && c.Queue != "memory" {
		errs = append(errs, errors.New("--store memory forgets its payments when the process ends, and a durable --queue remembers their events and would drop those of the next ones: give --queue memory too, or a durable store"))
	}
	if err := (nats.Config{Stream: c.Stream, Subject: "retryproof." + c.Stream}).Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--stream %q: %w", c.Stream, err))
	}
	for _, raw := range []string{c.Store, c.Queue} {
		if _, err := url.Parse(raw); err != nil {
			errs = append(errs, errors.New("a URL among --store and --queue cannot be read: is a special character of a password not percent-encoded?"))
		}
	}
	if c.PSP != "" {
		errs = append(errs, checkWebURL("psp", c.PSP))
	}
	if c.Push != "" {
		errs = append(errs, checkWebURL("push", c.Push))
	}
	return errors.Join(errs...)
}

// site is everything that one serve process runs.
type site struct {
	handler http.Handler
	loops   []worker.Loop
	system  *payments.System
	outside *outside
	closers []func() error
}

// run serves and loops until ctx ends; then requests finish first, loops after
// them, so that what a request left is picked up as long as possible. What the outside
// sends by itself ends before that, while somebody still listens.
func (s *site) run(ctx context.Context, log *slog.Logger, listener net.Listener) error {
	loops, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	loopsDone := background(loops, worker.Config{Log: log}, s.loops)
	outside, stopOutside := context.WithCancel(ctx)
	defer stopOutside()
	outsideDone := background(outside, worker.Config{Log: log, Grace: time.Second}, s.outside.loops)
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	served, failed := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	go func() {
		if err := s.outside.failed(); err != nil {
			failed <- err
		}
	}()
	var err, broken error
	select {
	case err = <-served:
	case broken = <-failed:
	case <-ctx.Done():
	}
	stopOutside()
	<-outsideDone
	if err == nil {
		log.Info("stopping: requests and loops finish first")
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		err = server.Shutdown(drain)
		cancel()
	}
	stopLoops()
	<-loopsDone
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = s.system.Flush(flush)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(broken, err)
}

// background runs loops; the channel is closed when they have ended after ctx.
func background(ctx context.Context, config worker.Config, loops []worker.Loop) <-chan struct{} {
	done := make(chan struct{})
	config.Clock, config.Rand = clock.System(), entropy.System()
	go func() {
		defer close(done)
		worker.Run(ctx, config, loops...)
	}()
	return done
}

// close closes what was opened, last first.
func (s *site) close(log *slog.Logger) {
	for i := len(s.closers) - 1; i >= 0; i-- {
		if err := s.closers[i](); err != nil {
			log.Warn("a part did not close cleanly", "error", err)
		}
	}
}

// compose opens the parts and joins them. What was opened before an error is
// closed again.
func (c *serveCommand) compose(ctx context.Context, log *slog.Logger, tokens tokenList, address string) (s *site, err error) {
	s = &site{}
	defer func() {
		if err != nil {
			s.close(log)
		}
	}()
	metrics := newPromMetrics()
	stores, err := openStore(ctx, c.Store, filepath.Join(c.Data, "ledger.db"), true)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, stores.close)
	if c.Queue == "" {
		if err := queueOf(ctx, stores.Hops, filepath.Join(c.Data, "queue")); err != nil {
			return s, err
		}
	}
	q, err := openQueue(ctx, c.Queue, c.Stream, filepath.Join(c.Data, "queue"), log)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, q.close)
	outside, err := openOutside(ctx, c, stores.Hops, log, address)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, outside.close)
	s.outside = outside
	arrivals, err := c.arrivals(c.Margin, metrics)
	if err != nil {
		return s, err
	}
	config := payments.Config{Deadline: c.Deadline, Margin: c.Margin, AnswerTTL: c.AnswerTTL, Workers: c.Workers, Relays: c.Relays,
		HopsAskPSP: outside.core != nil}
	if tokens.demo {
		config.Merchants = []string{"m1", "m2"}
	}
	s.system, err = payments.New(payments.Deps{
		Store: stores.Stores, Queue: q, PSP: outside.psp, Push: outside.push, Authenticate: tokens.authenticate, Log: log, Metrics: metrics,
		Operator: tokens.operator, Lister: outside.lister, Arrived: arrived(arrivals),
	}, config)
	if err != nil {
		return s, misuse{inFlags(err)}
	}
	if tokens.demo {
		for _, m := range demoOpening {
			if err := s.system.OpenMerchant(ctx, m.merchant, "USD", m.balance); err != nil {
				return s, fmt.Errorf("opening balances: %w", err)
			}
		}
	}
	watchOutbox(metrics, stores.Outbox, clock.System())
	watchParked(metrics, stores.ParkedMessages)
	watchQueue(metrics, q)
	s.loops = s.system.Loops()
	s.handler, err = c.shed(arrivals, metrics, c.mount(s.system, outside, metrics, tokens))
	return s, err
}
