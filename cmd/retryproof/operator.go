package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/retryproof/retryproof/httpkey"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/reconcile"
)

// operatorCommand is what a person does about what no machine can settle.
type operatorCommand struct {
	API       string                   `name:"api" help:"The server's address. Its operator's bearer token is read from the environment variable RETRYPROOF_OPERATOR_TOKEN." default:"http://127.0.0.1:8080"`
	List      operatorListCommand      `cmd:"" help:"List payments and refunds without an outcome."`
	Show      operatorShowCommand      `cmd:"" help:"Show everything that is known of a payment, with the evidence."`
	Verdict   operatorVerdictCommand   `cmd:"" help:"Decide an UNKNOWN payment or refund, with a reason that is kept."`
	Reconcile operatorReconcileCommand `cmd:"" help:"Compare a day or a period with the processor's records."`
	Parked    operatorParkedCommand    `cmd:"" help:"List events and messages that were set aside with a reason."`
	Redrive   operatorRedriveCommand   `cmd:"" help:"Put back what was set aside, once its cause is mended."`
}

// operatorToken is the environment variable with the operator's bearer token: a flag
// would show it to everybody on the machine.
const operatorToken = "RETRYPROOF_OPERATOR_TOKEN"

// call asks the operator's API.
func (c *operatorCommand) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	token := os.Getenv(operatorToken)
	if token == "" {
		return nil, misuse{fmt.Errorf("%s is not set: it must hold the operator's bearer token (the demo's is demo-operator)", operatorToken)}
	}
	base, err := url.Parse(c.API)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, misuse{fmt.Errorf("--api %q is not an http or https URL", c.API)}
	}
	if base.Scheme == "http" && !loopback(base.Hostname()) {
		return nil, misuse{fmt.Errorf("--api %s would send the operator's token over the network in plain text: use https, or a tunnel to 127.0.0.1", c.API)}
	}
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.API, "/")+path, payload)
	if err != nil {
		return nil, misuse{err}
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Timeout: 5 * time.Minute}).Do(r)
	if err != nil {
		return nil, fmt.Errorf("operator: %w (is it running there? give --api)", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	if err != nil || answer.StatusCode == http.StatusOK {
		return text, err
	}
	var p httpkey.Problem
	if json.Unmarshal(text, &p) != nil || p.Code == "" {
		return nil, fmt.Errorf("operator: the server answered %s", answer.Status)
	}
	if answer.StatusCode == http.StatusUnauthorized {
		return nil, fmt.Errorf("operator: the server does not know the token in %s (%s)", operatorToken, p.Detail)
	}
	return nil, fmt.Errorf("operator: %s: %s", p.Code, p.Detail)
}

// operatorListCommand lists what is open.
type operatorListCommand struct {
	Format string `help:"text or json." enum:"text,json" default:"text"`
}

// Run lists payments and refunds without an outcome.
func (l *operatorListCommand) Run(ctx context.Context, c *commandLine, out output) error {
	text, err := c.Operator.call(ctx, http.MethodGet, "/operator/unknown", nil)
	if err != nil || l.Format == "json" {
		_, _ = out.stdout.Write(text)
		return err
	}
	var list struct {
		Unknown []struct {
			ID, Kind, State, Currency string
			PaymentID                 string `json:"payment_id"`
			Amount                    int64
			Tries                     int
			CreatedAt                 time.Time  `json:"created_at"`
			NextAt                    *time.Time `json:"next_at"`
		}
		Limit int
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("operator: the answer cannot be read: %w", err)
	}
	if len(list.Unknown) == 0 {
		fmt.Fprintln(out.stdout, "nothing is open")
		return nil
	}
	t := tabwriter.NewWriter(out.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "kind\tid\tstate\tamount\ttries\tsince\tasked again")
	for _, u := range list.Unknown {
		again := "–"
		if u.NextAt != nil {
			again = u.NextAt.Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d %s\t%d\t%s\t%s\n", u.Kind, u.ID, u.State, u.Amount, u.Currency, u.Tries, u.CreatedAt.Format(time.RFC3339), again)
	}
	if len(list.Unknown) >= list.Limit {
		fmt.Fprintf(t, "… and perhaps more: the list ends at %d of each kind\n", list.Limit)
	}
	return t.Flush()
}

func indented(out output, text []byte) error {
	var shown bytes.Buffer
	if err := json.Indent(&shown, text, "", "  "); err != nil {
		return fmt.Errorf("operator: the answer cannot be read: %w", err)
	}
	_, err := shown.WriteTo(out.stdout)
	return err
}

// operatorVerdictCommand decides.
type operatorVerdictCommand struct {
	ID        string `arg:"" name:"PAYMENT" help:"The payment's id."`
	Refund    string `help:"Decide this refund of the payment instead." placeholder:"ID"`
	State     string `help:"SUCCEEDED, FAILED, or VOID when it never ran and never will." required:"" enum:"SUCCEEDED,FAILED,VOID"`
	Reference string `help:"The processor's id of the charge or refund; needed for SUCCEEDED." placeholder:"ID"`
	Reason    string `help:"Why: what was seen, where. It is kept as evidence with your name." required:""`
}

// Run applies the verdict and prints what the payment is then.
func (v *operatorVerdictCommand) Run(ctx context.Context, c *commandLine, out output) error {
	if v.ID == "" {
		return errNoPayment
	}
	if strings.TrimSpace(v.Reason) == "" {
		return misuse{errors.New("--reason is empty: say what was seen, and where; it is kept as evidence")}
	}
	if v.State == "SUCCEEDED" && v.Reference == "" {
		return misuse{errors.New("--state SUCCEEDED needs --reference, the processor's id of the charge or refund")}
	}
	path := "/operator/payments/" + url.PathEscape(v.ID)
	if v.Refund != "" {
		path += "/refunds/" + url.PathEscape(v.Refund)
	}
	text, err := c.Operator.call(ctx, http.MethodPost, path+"/verdict", map[string]string{"state": v.State, "reference": v.Reference, "reason": v.Reason})
	if err != nil {
		return err
	}
	return indented(out, text)
}

// operatorReconcileCommand compares a period.
type operatorReconcileCommand struct {
	Day    string `help:"A day, in UTC." placeholder:"YYYY-MM-DD" xor:"period"`
	From   string `help:"The period's begin, with --to." placeholder:"RFC3339" xor:"period"`
	To     string `help:"The period's end, not part of it." placeholder:"RFC3339"`
	Settle bool   `help:"Close what is unknown here and definite at the processor."`
	Format string `help:"text or json." enum:"text,json" default:"text"`
}

// period reads the flags.
func (r *operatorReconcileCommand) period() (from, to time.Time, err error) {
	if r.Day != "" && r.To == "" {
		if from, err = time.Parse(time.DateOnly, r.Day); err != nil {
			err = fmt.Errorf("--day %q: a day is YYYY-MM-DD", r.Day)
		}
		return from, from.AddDate(0, 0, 1), err
	}
	if r.From == "" || r.To == "" {
		return from, to, errors.New("give --day YYYY-MM-DD, or --from and --to")
	}
	if from, err = time.Parse(time.RFC3339, r.From); err != nil {
		return from, to, fmt.Errorf("--from %q: a moment is RFC 3339, such as 2026-11-30T00:00:00Z", r.From)
	}
	if to, err = time.Parse(time.RFC3339, r.To); err != nil {
		return from, to, fmt.Errorf("--to %q: a moment is RFC 3339, such as 2026-11-30T00:00:00Z", r.To)
	}
	if !from.Before(to) {
		err = fmt.Errorf("--from %s must be before --to %s", r.From, r.To)
	}
	return from, to, err
}

// Run prints the report. It fails when something is left for a person.
func (r *operatorReconcileCommand) Run(ctx context.Context, c *commandLine, out output) error {
	from, to, err := r.period()
	if err != nil {
		return misuse{err}
	}
	text, err := c.Operator.call(ctx, http.MethodPost, "/operator/reconciliations", map[string]any{"from": from, "to": to, "settle": r.Settle})
	if err != nil {
		return err
	}
	var report payments.Reconciliation
	if err := json.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("operator: the answer cannot be read: %w", err)
	}
	if r.Format == "json" {
		err = indented(out, text)
	} else {
		err = errors.Join(writeReconciled(out.stdout, "payments", report.Payments), writeReconciled(out.stdout, "refunds", report.Refunds))
	}
	if err == nil && (report.Payments.Open() || report.Refunds.Open()) {
		err = errors.New("reconcile: some differences are for a person")
	}
	return err
}

// ones are the counts of a report that may be 1.
var ones = regexp.MustCompile(`(: |, )1 (record|difference|unknown)s`)

// writeReconciled writes a report as a table; its first line counts.
func writeReconciled(w io.Writer, what string, r reconcile.Report) error {
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		return err
	}
	counts, table, _ := strings.Cut(text.String(), "\n")
	_, err := fmt.Fprintf(w, "%s, %s\n%s", what, ones.ReplaceAllString(counts, "${1}1 $2"), table)
	return err
}
