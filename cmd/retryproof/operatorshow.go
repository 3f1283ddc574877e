package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"
)

// errNoPayment is for an empty argument, which would ask for another address.
var errNoPayment = misuse{errors.New("PAYMENT is empty: give the payment's id (operator list shows what is open)")}

// operatorShowCommand shows one payment.
type operatorShowCommand struct {
	ID     string `arg:"" name:"PAYMENT" help:"The payment's id."`
	Format string `help:"text or json." enum:"text,json" default:"text"`
}

// Run prints the payment.
func (s *operatorShowCommand) Run(ctx context.Context, c *commandLine, out output) error {
	if s.ID == "" {
		return errNoPayment
	}
	text, err := c.Operator.call(ctx, http.MethodGet, "/operator/payments/"+url.PathEscape(s.ID), nil)
	if err != nil {
		return err
	}
	if s.Format == "json" {
		return indented(out, text)
	}
	var p shownPayment
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("operator: the answer cannot be read: %w", err)
	}
	return p.print(out.stdout)
}

// shownPayment is what the operator's API says of a payment.
type shownPayment struct {
	ID, State, Caller, Currency string
	OrderID                     string `json:"order_id"`
	MerchantID                  string `json:"merchant_id"`
	ChargeID                    string `json:"charge_id"`
	DeclineCode                 string `json:"decline_code"`
	Amount, Refunded            int64
	CreatedAt                   time.Time `json:"created_at"`
	UpdatedAt                   time.Time `json:"updated_at"`
	Evidence                    []shownEvidence
	Refunds                     []shownRefund
}

type shownRefund struct {
	ID, State, Currency string
	RefundID            string `json:"refund_id"`
	FailureCode         string `json:"failure_code"`
	Amount              int64
	Evidence            []shownEvidence
}

type shownEvidence struct {
	At                   time.Time
	Kind, Name, By, Seen string
}

// print writes the payment, its evidence and its refunds with theirs as tables.
func (p shownPayment) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range [][2]string{
		{"payment", p.ID}, {"state", p.State}, {"amount", fmt.Sprintf("%d %s", p.Amount, p.Currency)}, {"refunded", fmt.Sprintf("%d %s", p.Refunded, p.Currency)},
		{"order", p.OrderID}, {"merchant", p.MerchantID}, {"caller", p.Caller}, {"charge at the processor", p.ChargeID}, {"declined", p.DeclineCode},
		{"created", p.CreatedAt.Format(time.RFC3339)}, {"updated", p.UpdatedAt.Format(time.RFC3339)},
	} {
		if row[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", row[0], oneLineOf(row[1]))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printEvidence(w, "evidence", p.Evidence); err != nil {
		return err
	}
	for _, f := range p.Refunds {
		fmt.Fprintf(w, "\nrefund %s: %s, %d %s", f.ID, f.State, f.Amount, f.Currency)
		if f.RefundID != "" {
			fmt.Fprintf(w, ", %s at the processor", oneLineOf(f.RefundID))
		}
		if f.FailureCode != "" {
			fmt.Fprintf(w, ", %s", oneLineOf(f.FailureCode))
		}
		fmt.Fprintln(w)
		if err := printEvidence(w, "its evidence", f.Evidence); err != nil {
			return err
		}
	}
	return nil
}

func printEvidence(w io.Writer, title string, list []shownEvidence) error {
	if len(list) == 0 {
		_, err := fmt.Fprintf(w, "%s: none\n", title)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "%s\tkind\tname\tby\tseen\n", title)
	for _, e := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", e.At.Format(time.RFC3339), e.Kind, oneLineOf(e.Name), oneLineOf(e.By), oneLineOf(e.Seen))
	}
	return t.Flush()
}

// oneLineOf keeps a text in its cell, and control characters off the screen.
func oneLineOf(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
