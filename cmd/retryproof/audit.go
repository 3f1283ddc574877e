package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
)

// auditCommand counts what must agree in a store.
type auditCommand struct {
	Store  string `help:"postgres://… or sqlite:PATH." required:"" placeholder:"URL"`
	Format string `help:"text or json." enum:"text,json" default:"text"`
}

// auditReport is the audit as it is printed.
type auditReport struct {
	Payments struct {
		Pending   int64 `json:"pending"`
		Unknown   int64 `json:"unknown"`
		Succeeded int64 `json:"succeeded"`
		Failed    int64 `json:"failed"`
		Void      int64 `json:"void"`
	} `json:"payments"`
	SucceededSum     int64 `json:"succeeded_sum"`
	Credits          int64 `json:"credits"`
	CreditSum        int64 `json:"credit_sum"`
	Refunds          int64 `json:"refunds_succeeded"`
	RefundsOpen      int64 `json:"refunds_open"`
	RefundedSum      int64 `json:"refunded_sum"`
	Debits           int64 `json:"debits"`
	DebitSum         int64 `json:"debit_sum"`
	WrongRefunded    int64 `json:"wrong_reservations"`
	Unbalanced       int64 `json:"unbalanced_entries"`
	WrongBalances    int64 `json:"wrong_balances"`
	OutboxWaiting    int64 `json:"outbox_waiting"`
	OutboxParked     int64 `json:"outbox_parked"`
	MessagesParked   int64 `json:"messages_parked"`
	IntentsPending   int64 `json:"notifications_pending"`
	IntentsSent      int64 `json:"notifications_sent"`
	IntentsRefused   int64 `json:"notifications_refused"`
	ClaimsInProgress int64 `json:"claims_in_progress"`
	// Outstanding are the credits and debits that SUCCEEDED payments and refunds still
	// lack. Work in flight explains them, and so does a lost event.
	Outstanding struct {
		Credits int64 `json:"credits"`
		Debits  int64 `json:"debits"`
	} `json:"outstanding"`
	Disagreements []string `json:"disagreements"`
}

// Run prints the counts; it fails when they disagree in a way that no work in
// flight explains.
func (c *auditCommand) Run(ctx context.Context, out output) error {
	if c.Store == "memory" {
		return misuse{errors.New("--store memory ends with its process: nothing to audit")}
	}
	if err := checkSQLiteFile(c.Store); err != nil {
		return err
	}
	store, err := openStore(ctx, c.Store, "", false)
	if err != nil {
		return err
	}
	defer func() { _ = store.close() }()
	a, err := store.Ledger.Audit(ctx)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	r := report(a)
	if c.Format == "json" {
		err = json.NewEncoder(out.stdout).Encode(r)
	} else {
		r.print(out)
	}
	if err == nil && len(r.Disagreements) > 0 {
		err = fmt.Errorf("audit: %s", strings.Join(r.Disagreements, "; "))
	}
	return err
}

func report(a payments.Audit) auditReport {
	r := auditReport{SucceededSum: a.SucceededSum, Credits: a.Credits, CreditSum: a.CreditSum, Unbalanced: a.Unbalanced,
		Refunds: a.RefundsByState[effect.Succeeded], RefundsOpen: a.RefundsByState[effect.Pending] + a.RefundsByState[effect.Unknown],
		RefundedSum: a.RefundedSum, Debits: a.Debits, DebitSum: a.DebitSum, WrongRefunded: a.WrongRefunded,
		WrongBalances: a.WrongBalance, OutboxWaiting: a.OutboxWaiting, OutboxParked: a.OutboxParked, MessagesParked: a.MessagesParked,
		IntentsPending: a.IntentsPending, IntentsSent: a.IntentsSent, IntentsRefused: a.IntentsRefused, ClaimsInProgress: a.ClaimsInProgress, Disagreements: []string{}}
	r.Payments.Pending, r.Payments.Unknown = a.ByState[effect.Pending], a.ByState[effect.Unknown]
	r.Payments.Succeeded, r.Payments.Failed, r.Payments.Void = a.ByState[effect.Succeeded], a.ByState[effect.Failed], a.ByState[effect.Void]
	r.Outstanding.Credits, r.Outstanding.Debits = max(r.Payments.Succeeded-r.Credits, 0), max(r.Refunds-r.Debits, 0)
	disagree := func(when bool, format string, args ...any) {
		if when {
			r.Disagreements = append(r.Disagreements, fmt.Sprintf(format, args...))
		}
	}
	disagree(a.Unbalanced > 0, "%d entries do not sum to 0", a.Unbalanced)
	disagree(a.WrongBalance > 0, "%d balances are not the sum of their postings", a.WrongBalance)
	disagree(a.Credits > r.Payments.Succeeded, "%d credits for %d succeeded payments", a.Credits, r.Payments.Succeeded)
	quiet := a.OutboxWaiting == 0 && a.OutboxParked == 0 && a.MessagesParked == 0 && a.IntentsPending == 0
	disagree(quiet && a.CreditSum > a.SucceededSum, "%d credited, %d charged", a.CreditSum, a.SucceededSum)
	disagree(a.WrongRefunded > 0, "%d payments whose refunded amount is not the sum of their refunds", a.WrongRefunded)
	disagree(a.Debits > r.Refunds, "%d debits for %d succeeded refunds", a.Debits, r.Refunds)
	disagree(quiet && a.DebitSum > a.RefundedSum, "%d debited, %d refunded", a.DebitSum, a.RefundedSum)
	intents := a.IntentsPending + a.IntentsSent + a.IntentsRefused
	disagree(intents != a.Credits+a.Debits, "%d notifications for %d credits and %d debits", intents, a.Credits, a.Debits)
	return r
}

func (r auditReport) print(out output) {
	rows := []struct {
		name  string
		value int64
	}{
		{"payments PENDING", r.Payments.Pending}, {"payments UNKNOWN", r.Payments.Unknown}, {"payments SUCCEEDED", r.Payments.Succeeded},
		{"payments FAILED", r.Payments.Failed}, {"payments VOID", r.Payments.Void}, {"sum of SUCCEEDED, minor units", r.SucceededSum},
		{"credits", r.Credits}, {"sum of credits, minor units", r.CreditSum}, {"refunds SUCCEEDED", r.Refunds}, {"refunds without an outcome", r.RefundsOpen}, {"sum of refunds, minor units", r.RefundedSum},
		{"debits", r.Debits}, {"sum of debits, minor units", r.DebitSum}, {"payments with a wrong refunded sum", r.WrongRefunded},
		{"entries that do not sum to 0", r.Unbalanced},
		{"balances that are not their sum", r.WrongBalances}, {"events waiting", r.OutboxWaiting}, {"events parked", r.OutboxParked}, {"messages parked", r.MessagesParked},
		{"notifications pending", r.IntentsPending}, {"notifications sent", r.IntentsSent}, {"notifications refused", r.IntentsRefused},
		{"claims in progress", r.ClaimsInProgress},
	}
	for _, row := range rows {
		fmt.Fprintf(out.stdout, "%-34s %12d\n", row.name, row.value)
	}
	for _, o := range []struct {
		name  string
		value int64
	}{{"credit", r.Outstanding.Credits}, {"debit", r.Outstanding.Debits}} {
		if o.value > 0 {
			fmt.Fprintln(out.stdout, r.outstanding(o.name, o.value))
		}
	}
	for _, d := range r.Disagreements {
		fmt.Fprintln(out.stdout, "DISAGREES:", d)
	}
}

// outstanding says where the event of a missing credit or debit may be.
func (r auditReport) outstanding(name string, n int64) string {
	places := ""
	if r.OutboxWaiting > 0 {
		places = "waiting here, "
	}
	if r.OutboxParked > 0 {
		places += "parked here, "
	}
	if r.MessagesParked > 0 {
		places += "parked by a worker, "
	}
	if n == 1 {
		return fmt.Sprintf("1 %s outstanding: its event is %sin the queue, or was lost", name, places)
	}
	return fmt.Sprintf("%d %ss outstanding: their events are %sin the queue, or were lost", n, name, places)
}
