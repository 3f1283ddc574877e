package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// audit is what `retryproof audit --format json` prints, as far as it is needed.
type audit struct {
	Payments struct {
		Pending, Unknown, Succeeded, Failed int64
	} `json:"payments"`
	Credits         int64 `json:"credits"`
	CreditSum       int64 `json:"credit_sum"`
	Unbalanced      int64 `json:"unbalanced_entries"`
	WrongBalance    int64 `json:"wrong_balances"`
	OutboxWaiting   int64 `json:"outbox_waiting"`
	OutboxParked    int64 `json:"outbox_parked"`
	IntentsPending  int64 `json:"notifications_pending"`
	IntentsSent     int64 `json:"notifications_sent"`
	IntentsRefused  int64 `json:"notifications_refused"`
	ClaimsInFlight  int64 `json:"claims_in_progress"`
	SucceededAmount int64 `json:"succeeded_sum"`
}

// outsideCounts are the charges and notifications where they really are.
type outsideCounts struct {
	charges     int64
	chargeSum   int64
	doubles     int64
	shown       int64
	alerts      int64
	chargeByRef map[string]int64
}

// settle waits until nothing is in flight and compares all counts.
func settle(ctx context.Context, o options, c *crowd) error {
	began := time.Now()
	var problem error
	for time.Since(began) < o.heal {
		a, out, err := look(ctx, o)
		if err != nil {
			return err
		}
		if problem = compare(a, out, c); problem == nil {
			fmt.Printf("kill9: settled %v after the last payment: %d intents = %d charges = %d credits = %d notifications shown (%d alerts); sums %d = %d; nothing pending\n",
				time.Since(began).Round(time.Second), len(c.bought), out.charges, a.Credits, out.shown, out.alerts, out.chargeSum, a.CreditSum)
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return fmt.Errorf("not settled after %v: %w", o.heal, problem)
}

func look(ctx context.Context, o options) (audit, outsideCounts, error) {
	var a audit
	store := o.store
	if store == "" {
		store = "sqlite:" + o.data + "/ledger.db"
	}
	text, err := exec.CommandContext(ctx, o.binary, "audit", "--store", store, "--format", "json").Output()
	// Exit code 1 says that the counts disagree, which is so while work is in
	// flight; the counts are printed all the same.
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return a, outsideCounts{}, fmt.Errorf("audit: %w", err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, outsideCounts{}, fmt.Errorf("audit: %w", err)
	}
	out := outsideCounts{chargeByRef: map[string]int64{}}
	var charges struct {
		Charges []struct {
			Reference string
			Amount    int64
		}
	}
	if err := getJSON(ctx, "http://"+o.listen+"/outside/psp/_emulator/charges", &charges); err != nil {
		return a, out, err
	}
	for _, charge := range charges.Charges {
		out.charges++
		out.chargeSum += charge.Amount
		out.chargeByRef[charge.Reference]++
		if out.chargeByRef[charge.Reference] == 2 {
			out.doubles++
		}
	}
	var totals struct{ Shown, Alerts int64 }
	if err := getJSON(ctx, "http://"+o.listen+"/outside/push/totals", &totals); err != nil {
		return a, out, err
	}
	out.shown, out.alerts = totals.Shown, totals.Alerts
	return a, out, nil
}

// compare returns everything that does not agree.
func compare(a audit, out outsideCounts, c *crowd) error {
	var errs []error
	same := func(what string, got, want int64) {
		if got != want {
			errs = append(errs, fmt.Errorf("%s: got %d, want %d", what, got, want))
		}
	}
	intents, sum := int64(len(c.bought)), int64(0)
	for _, b := range c.bought {
		sum += b.amount
		if out.chargeByRef[b.paymentID] != 1 {
			errs = append(errs, fmt.Errorf("payment %s was charged %d times", b.paymentID, out.chargeByRef[b.paymentID]))
		}
	}
	same("charges at the processor", out.charges, intents)
	same("payments charged twice", out.doubles, 0)
	same("sum charged", out.chargeSum, sum)
	same("payments SUCCEEDED", a.Payments.Succeeded, intents)
	same("payments FAILED", a.Payments.Failed, 0)
	same("payments not final", a.Payments.Pending+a.Payments.Unknown, 0)
	same("credits", a.Credits, intents)
	same("sum credited", a.CreditSum, sum)
	same("notifications shown", out.shown, intents)
	same("notifications sent", a.IntentsSent, intents)
	same("notifications pending", a.IntentsPending, 0)
	same("notifications refused", a.IntentsRefused, 0)
	same("events waiting or parked", a.OutboxWaiting+a.OutboxParked, 0)
	same("entries that do not sum to 0", a.Unbalanced, 0)
	same("balances that are not their sum", a.WrongBalance, 0)
	return errors.Join(errs...)
}
