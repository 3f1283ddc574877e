package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/payments"
	pspemulator "github.com/retryproof/retryproof/psp/emulator"
)

// Parts that remember for each other have names, so that one that was lost or mixed
// up is refused at the start instead of charging twice or losing a credit silently.
// The ledger keeps the names beside the hop counts.
const (
	hopIdentity       = "identity"
	identityProcessor = "processor" // whose keys the ledger's charges have
	identityLedger    = "ledger"    // the ledger's own
)

// namesIn are the names of a kind that the ledger knows.
func namesIn(ctx context.Context, hops payments.Hops, kind string) ([]string, error) {
	all, err := hops.Sightings(ctx, retryproof.ID(kind))
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	var names []string
	for _, s := range all {
		if s.Hop == hopIdentity {
			names = append(names, s.What)
		}
	}
	return names, nil
}

func addName(ctx context.Context, hops payments.Hops, kind, name string) error {
	err := hops.AddSightings(ctx, []payments.Sighting{{PaymentID: retryproof.ID(kind), Hop: hopIdentity, What: name, N: 1, At: clock.System().Now()}})
	if err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	return nil
}

// nameProcessor gives the embedded processor its name. The name is in the journal,
// since a name beside it would outlive it: a processor whose file was lost has never
// seen the ledger's keys and would charge again what the resolver repeats. An earlier
// version kept the name in the file psp.id; a journal of that time, and only that,
// takes it over.
func nameProcessor(ctx context.Context, core *pspemulator.Core, dir string, journalWasThere bool) error {
	if core.Account() != "" {
		return nil
	}
	old := filepath.Join(dir, "psp.id")
	name := ""
	if journalWasThere {
		text, err := os.ReadFile(old)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("--data: %w", err)
		}
		name = strings.TrimSpace(string(text))
	}
	if name == "" {
		name = entropy.Token(entropy.System())
	}
	if err := core.OpenAccount(ctx, name); err != nil {
		return fmt.Errorf("the processor's file: %w", err)
	}
	if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--data: %w", err)
	}
	return nil
}

// chargedBy refuses a ledger whose cards were charged by another processor than the
// embedded one of the folder.
func chargedBy(ctx context.Context, hops payments.Hops, processor, dir string) error {
	known, err := namesIn(ctx, hops, identityProcessor)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(known, func(name string) bool { return name != processor }) {
		return misuse{fmt.Errorf("the ledger's cards were charged by another embedded processor than that of --data %s: use its folder; if its file psp.db was lost, bring it back, since without it cards would be charged again; if it belongs to another serve, give --psp http://HOST:PORT of that one", dir)}
	}
	return addName(ctx, hops, identityProcessor, processor)
}

// queueOf refuses an embedded queue that holds the messages of another ledger: it
// remembers the ids of that one's events and would drop this one's that have the same.
// The file with the ledger's name is inside the queue's folder, so it goes with it.
func queueOf(ctx context.Context, hops payments.Hops, dir string) error {
	known, err := namesIn(ctx, hops, identityLedger)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "ledger.id")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--data: %w", err)
	}
	if name := strings.TrimSpace(string(text)); name != "" {
		if !slices.Contains(known, name) {
			return misuse{fmt.Errorf("the queue in %s holds the messages of another ledger: give that ledger by --store, or this one a --data folder of its own; if that ledger is gone for good, remove the queue's folder", dir)}
		}
		return nil
	}
	if len(known) == 0 {
		known = []string{entropy.Token(entropy.System())}
		if err := addName(ctx, hops, identityLedger, known[0]); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	if err := os.WriteFile(path, []byte(known[0]), 0o600); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	return nil
}
