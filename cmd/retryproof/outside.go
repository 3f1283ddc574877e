package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

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
	psp      payments.PSP
	lister   payments.Lister
	push     notify.Sender
	emulated bool
	// core and pspControl are nil with a real processor.
	core       *pspemulator.Core
	pspControl http.Handler
	phones     *pushemulator.Emulator
	loops      []worker.Loop
	closers    []func() error
}

func (o *outside) close() error {
	var errs []error
	for i := len(o.closers) - 1; i >= 0; i-- {
		errs = append(errs, o.closers[i]())
	}
	return errors.Join(errs...)
}

func openOutside(ctx context.Context, c *serveCommand, log *slog.Logger, address string) (*outside, error) {
	o := &outside{}
	var err error
	if c.Push == "" {
		err = o.openPush(ctx, filepath.Join(c.Data, "push.db"), log)
	} else {
		o.push = &pushemulator.Client{BaseURL: c.Push}
	}
	if err == nil {
		if c.PSP == "" {
			err = o.openEmulator(ctx, filepath.Join(c.Data, "psp.db"), log, address)
		} else {
			err = o.openStripe(c.PSP)
		}
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	return o, nil
}

// openStripe uses a processor that speaks Stripe's API, with keys from the
// environment.
func (o *outside) openStripe(base string) error {
	key, secret := os.Getenv("STRIPE_API_KEY"), os.Getenv("STRIPE_WEBHOOK_SECRET")
	if key == "" || secret == "" {
		return misuse{errors.New("--psp needs STRIPE_API_KEY and STRIPE_WEBHOOK_SECRET in the environment")}
	}
	client, err := stripe.New(stripe.Config{BaseURL: base, APIKey: key, WebhookSecret: secret})
	o.psp, o.lister = client, client
	return err
}

// openEmulator starts the embedded processor on a port of its own and talks to it
// as to Stripe.
func (o *outside) openEmulator(ctx context.Context, path string, log *slog.Logger, address string) error {
	journal, err := sqlite.OpenJournal(ctx, path)
	if err != nil {
		return fmt.Errorf("the processor's file: %w", err)
	}
	o.closers = append(o.closers, journal.Close)
	// Fresh secrets for each start: what is not delivered yet is signed anew. With
	// secrets in the environment other processes can use this processor too.
	key, secret := os.Getenv("STRIPE_API_KEY"), os.Getenv("STRIPE_WEBHOOK_SECRET")
	if key == "" {
		key = "sk_test_" + entropy.Token(entropy.System())
	}
	if secret == "" {
		secret = "whsec_" + entropy.Token(entropy.System())
	}
	o.core, err = pspemulator.New(ctx, pspemulator.Config{Clock: clock.System(), Journal: journal, WebhookSecret: secret,
		Deliverer: pspemulator.HTTPDeliverer{URL: address + "/webhooks/psp"}})
	if err != nil {
		return fmt.Errorf("the processor's file: %w", err)
	}
	base, err := o.listen(pspemulator.NewHandler(o.core, pspemulator.HandlerConfig{APIKey: key}), log)
	if err != nil {
		return err
	}
	o.pspControl = pspemulator.NewHandler(o.core, pspemulator.HandlerConfig{APIKey: key, ControlWithoutKey: true})
	o.loops = append(o.loops, worker.Loop{Name: "processor's webhooks", Step: o.core.RunOnce, Idle: 50 * time.Millisecond})
	o.emulated = true
	client, err := stripe.New(stripe.Config{BaseURL: base, APIKey: key, WebhookSecret: secret})
	o.psp, o.lister = client, client
	return err
}

// openPush starts the embedded push provider on a port of its own.
func (o *outside) openPush(ctx context.Context, path string, log *slog.Logger) error {
	journal, err := sqlite.OpenJournal(ctx, path)
	if err != nil {
		return fmt.Errorf("the push provider's file: %w", err)
	}
	o.closers = append(o.closers, journal.Close)
	o.phones, err = pushemulator.New(ctx, pushemulator.Config{Clock: clock.System(), Journal: journal})
	if err != nil {
		return fmt.Errorf("the push provider's file: %w", err)
	}
	base, err := o.listen(o.phones.Handler(), log)
	o.push = &pushemulator.Client{BaseURL: base}
	return err
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

// belongsTo refuses a ledger whose cards were charged by another emulated
// processor: this one has never seen its keys, and would charge again what the
// resolver repeats. The ledger remembers the processor beside the hop counts.
func (o *outside) belongsTo(ctx context.Context, hops payments.Hops, dir string) error {
	if !o.emulated {
		return nil
	}
	path := filepath.Join(dir, "psp.id")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		text = []byte(entropy.Token(entropy.System()))
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	const processor, hop = "processor", "identity"
	known, err := hops.Sightings(ctx, processor)
	if err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	for _, k := range known {
		if k.Hop == hop && k.What != string(text) {
			return misuse{fmt.Errorf("the ledger's cards were charged by the emulated processor of another --data folder than %s: use that folder, or that processor by --psp http://…/outside/psp and --push http://…/outside/push", dir)}
		}
	}
	return hops.AddSightings(ctx, []payments.Sighting{{PaymentID: processor, Hop: hop, What: string(text), N: 1, At: clock.System().Now()}})
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
		if r.Method == http.MethodPost {
			var f phoneFaults
			body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10))
			body.DisallowUnknownFields()
			if err := body.Decode(&f); err != nil {
				http.Error(w, "the switches are lose_psp_reply and slow, true or false", http.StatusBadRequest)
				return
			}
			if err := o.setFaults(f, deadline); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(o.faults())
	})
}

// setFaults replaces the processor's script.
func (o *outside) setFaults(f phoneFaults, deadline time.Duration) error {
	o.core.ClearFaults()
	var faults []pspemulator.Fault
	if f.LosePSPReply {
		faults = append(faults, pspemulator.Fault{Operation: "charge", Do: pspemulator.LoseReply, Always: true})
	}
	if f.Slow {
		faults = append(faults, pspemulator.Fault{Operation: "charge", Do: pspemulator.Delay, By: deadline + time.Second, Always: true, When: "after"})
	}
	return o.core.AddFaults(faults...)
}

func (o *outside) faults() phoneFaults {
	var f phoneFaults
	for _, fault := range o.core.Faults() {
		switch fault.Do {
		case pspemulator.LoseReply:
			f.LosePSPReply = true
		case pspemulator.Delay:
			f.Slow = true
		}
	}
	return f
}
