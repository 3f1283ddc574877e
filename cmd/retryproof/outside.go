package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/payments"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
	"github.com/retryproof/retryproof/psp/stripe"
	pushemulator "github.com/retryproof/retryproof/push/emulator"
	"github.com/retryproof/retryproof/store/sqlite"
	"github.com/retryproof/retryproof/worker"
)

// outside are the companies beyond our walls: the card processor and the push
// provider with its phones. Each keeps a file of its own and is called over HTTP,
// so that killing this process takes nothing from them.
type outside struct {
	psp    payments.PSP
	lister payments.Lister
	push   notify.Sender
	// core is nil with a real processor, and so are its HTTP sides: pspControl, where
	// faults are set without a key, and pspAPI, where everything needs it. named says
	// that others know the key too, from the environment.
	core               *company[*pspemulator.Core]
	pspControl, pspAPI http.Handler
	named              bool
	// phones is nil with another's push provider.
	phones  *company[*pushemulator.Emulator]
	loops   []worker.Loop
	closers []func() error
}

func (o *outside) close() error {
	var errs []error
	for i := len(o.closers) - 1; i >= 0; i-- {
		errs = append(errs, o.closers[i]())
	}
	return errors.Join(errs...)
}

// openOutside opens the companies that are not given by URL, in the folder of --data.
// Those that need more than wakeUp for their files are ready later; failed then tells
// what became of it.
func openOutside(ctx context.Context, c *serveCommand, hops payments.Hops, log *slog.Logger, address string) (*outside, error) {
	o := &outside{}
	var err error
	if c.Push == "" {
		err = o.openPush(ctx, filepath.Join(c.Data, "push.db"), log)
	} else {
		o.push = &pushemulator.Client{BaseURL: c.Push}
	}
	if err == nil {
		if c.PSP == "" {
			err = o.openEmulator(ctx, c.Data, hops, log, address)
		} else {
			err = o.openStripe(c.PSP)
		}
	}
	if err == nil {
		over := time.After(wakeUp)
		if o.core != nil {
			err = o.core.wait(over)
		}
		if o.phones != nil {
			err = errors.Join(err, o.phones.wait(over))
		}
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

// failed waits until every company has read its file or one could not.
func (o *outside) failed() error {
	if o.core != nil {
		if <-o.core.ready; o.core.err != nil {
			return o.core.err
		}
	}
	if o.phones != nil {
		<-o.phones.ready
		return o.phones.err
	}
	return nil
}

// openStripe uses a processor that speaks Stripe's API, with keys from the
// environment.
func (o *outside) openStripe(base string) error {
	key, secret := os.Getenv("STRIPE_API_KEY"), os.Getenv("STRIPE_WEBHOOK_SECRET")
	if key == "" || secret == "" {
		return misuse{errors.New("--psp needs STRIPE_API_KEY and STRIPE_WEBHOOK_SECRET in the environment")}
	}
	client, err := stripe.New(stripe.Config{BaseURL: base, APIKey: key, WebhookSecret: secret})
	if err != nil {
		return misuse{fmt.Errorf("--psp, with STRIPE_API_KEY: %w", err)}
	}
	o.psp, o.lister = client, client
	return nil
}

// openEmulator starts the embedded processor on a port of its own and talks to it
// as to Stripe.
func (o *outside) openEmulator(ctx context.Context, dir string, hops payments.Hops, log *slog.Logger, address string) error {
	path := filepath.Join(dir, "psp.db")
	_, err := os.Stat(path)
	wasThere := err == nil
	journal, err := sqlite.OpenJournal(ctx, path)
	if err != nil {
		return fmt.Errorf("the processor's file: %w", err)
	}
	o.closers = append(o.closers, journal.Close)
	// Fresh secrets for each start: what is not delivered yet is signed again. With
	// secrets in the environment other processes can use this processor too.
	key, secret := os.Getenv("STRIPE_API_KEY"), os.Getenv("STRIPE_WEBHOOK_SECRET")
	o.named = key != ""
	if key == "" {
		key = "sk_test_" + entropy.Token(entropy.System())
	}
	if secret == "" {
		secret = "whsec_" + entropy.Token(entropy.System())
	}
	core, stop := wake(ctx, func(ctx context.Context) (*pspemulator.Core, error) {
		core, err := pspemulator.New(ctx, pspemulator.Config{Clock: clock.System(), Journal: journal, WebhookSecret: secret,
			Deliverer: pspemulator.HTTPDeliverer{URL: address + "/webhooks/psp"}})
		if err != nil {
			return nil, fmt.Errorf("the processor's file: %w", err)
		}
		if err := nameProcessor(ctx, core, dir, wasThere); err != nil {
			return nil, err
		}
		return core, chargedBy(ctx, hops, core.Account(), dir)
	})
	o.core = core
	o.closers = append(o.closers, stop)
	serving := func(config pspemulator.HandlerConfig) http.Handler {
		return core.handler(func(c *pspemulator.Core) http.Handler { return pspemulator.NewHandler(c, config) }, stillReadingStripe)
	}
	o.pspAPI = serving(pspemulator.HandlerConfig{APIKey: key})
	o.pspControl = serving(pspemulator.HandlerConfig{APIKey: key, ControlWithoutKey: true})
	base, err := o.listen(o.pspAPI, log)
	if err != nil {
		return err
	}
	o.loops = append(o.loops, worker.Loop{Name: "processor's webhooks", Step: o.sendWebhooks, Idle: 50 * time.Millisecond})
	client, err := stripe.New(stripe.Config{BaseURL: base, APIKey: key, WebhookSecret: secret})
	if err != nil {
		return misuse{fmt.Errorf("STRIPE_API_KEY: %w", err)}
	}
	o.psp, o.lister = client, client
	return nil
}

// sendWebhooks is a step of the processor's.
func (o *outside) sendWebhooks(ctx context.Context) (int, error) {
	core, ok := o.core.awake()
	if !ok {
		return 0, nil
	}
	return core.RunOnce(ctx)
}

// openPush starts the embedded push provider on a port of its own.
func (o *outside) openPush(ctx context.Context, path string, log *slog.Logger) error {
	journal, err := sqlite.OpenJournal(ctx, path)
	if err != nil {
		return fmt.Errorf("the push provider's file: %w", err)
	}
	o.closers = append(o.closers, journal.Close)
	phones, stop := wake(ctx, func(ctx context.Context) (*pushemulator.Emulator, error) {
		phones, err := pushemulator.New(ctx, pushemulator.Config{Clock: clock.System(), Journal: journal})
		if err != nil {
			return nil, fmt.Errorf("the push provider's file: %w", err)
		}
		return phones, nil
	})
	o.phones = phones
	o.closers = append(o.closers, stop)
	base, err := o.listen(o.pushAPI(), log)
	o.push = &pushemulator.Client{BaseURL: base}
	return err
}

// pushAPI is the push provider over HTTP.
func (o *outside) pushAPI() http.Handler {
	return o.phones.handler((*pushemulator.Emulator).Handler, stillReading)
}

// screens is one phone's screen over HTTP.
func (o *outside) screens() http.Handler {
	return o.phones.handler((*pushemulator.Emulator).ScreenHandler, stillReading)
}

// listen serves an outside company on a free loopback port.
func (o *outside) listen(h http.Handler, log *slog.Logger) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() { _ = server.Serve(listener) }() // ends with Close
	o.closers = append(o.closers, server.Close)
	return "http://" + listener.Addr().String(), nil
}

// phoneFaults are the switches of the phone page that concern the processor.
type phoneFaults struct {
	// LosePSPReply cuts the connection after every charge.
	LosePSPReply bool `json:"lose_psp_reply"`
	// Slow makes every charge take longer than the server's deadline.
	Slow bool `json:"slow"`
}

// serveFaults reads or sets the switches.
func (o *outside) serveFaults(deadline time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		core, ok := o.core.awake()
		if !ok {
			stillReading(w, r)
			return
		}
		if r.Method == http.MethodPost {
			var f phoneFaults
			body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10))
			body.DisallowUnknownFields()
			err := body.Decode(&f)
			if err == nil {
				if _, more := body.Token(); !errors.Is(more, io.EOF) {
					err = errors.New("there is something behind the object")
				}
			}
			if err != nil {
				refuse(w, retryproof.CodeInvalid, "the switches are lose_psp_reply and slow, true or false")
				return
			}
			if err := setFaults(core, f, deadline); err != nil {
				refuse(w, retryproof.CodeInvalid, err.Error())
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(faultsOf(core))
	})
}

// setFaults replaces the processor's script.
func setFaults(core *pspemulator.Core, f phoneFaults, deadline time.Duration) error {
	core.ClearFaults()
	var faults []pspemulator.Fault
	if f.LosePSPReply {
		faults = append(faults, pspemulator.Fault{Operation: "charge", Do: pspemulator.LoseReply, Always: true})
	}
	if f.Slow {
		faults = append(faults, pspemulator.Fault{Operation: "charge", Do: pspemulator.Delay, By: deadline + time.Second, Always: true, When: "after"})
	}
	return core.AddFaults(faults...)
}

func faultsOf(core *pspemulator.Core) phoneFaults {
	var f phoneFaults
	for _, fault := range core.Faults() {
		switch fault.Do {
		case pspemulator.LoseReply:
			f.LosePSPReply = true
		case pspemulator.Delay:
			f.Slow = true
		}
	}
	return f
}
