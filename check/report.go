package check

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retryproof/retryproof/deadline"
)

// Severity says what a finding means.
type Severity string

const (
	// Refuse: with these settings an effect can happen twice or be lost.
	Refuse Severity = "refuse"
	// Warn: it costs time, alerts or work, or it could not be judged.
	Warn Severity = "warn"
)

// The codes of the formulas. They are stable.
const (
	CodeFormula1        = "formula-1"         // guard memory ≥ retry horizon
	CodeGuardMemory     = "guard-memory"      // a guard with an end still knows the last retry when that begins
	CodeFormula2        = "formula-2"         // deadline + wait before the stamp < client timeout
	CodeNotStated       = "not-stated"        // a number is missing
	CodeInvalid         = "invalid"           // a value that no setting can have
	CodeLease           = "lease"             // the lease covers the deadline
	CodeClockMargin     = "clock-margin"      // the margin covers the clocks' offset
	CodeAnswerTTL       = "answer-ttl"        // answers outlive their own request
	CodeShedding        = "shedding"          // shedding comes before the deadline
	CodeBalancerTimeout = "balancer-timeout"  // the balancer waits for the deadline
	CodePSPTimeout      = "psp-timeout"       // no call is waited for after its lease
	CodePSPWindow       = "psp-window"        // the PSP remembers a key while it is repeated
	CodePSPWindowMargin = "psp-window-margin" // the last repeat arrives inside of the window
	CodeResolverLease   = "resolver-lease"    // a question ends within its lease
	CodeResolverRate    = "resolver-rate"     // questions leave room for live calls
	CodeRelayLease      = "relay-lease"       // a send ends within its lease
	CodeRelayWindow     = "relay-window"      // the queue still knows what a dead relay sent
	CodeWindowOnly      = "window-only"       // a queue has an inbox, and not its window alone
	CodeInboxRetention  = "inbox-retention"   // the inbox remembers longer than the queue
	CodeRedelivery      = "redelivery"        // a message is due again before the queue drops it
	CodeVisibility      = "visibility"        // a message is handled before it is due again
	CodeCacheEviction   = "cache-eviction"    // a memory of what was done is not evicted
)

// Result is one formula with its numbers.
type Result struct {
	// Code names the formula.
	Code string `json:"code"`
	// Formula is written with the members of the JSON form.
	Formula string `json:"formula"`
	// Numbers is Formula with the values in place of the names.
	Numbers string `json:"numbers"`
}

// Finding is a formula that fails or cannot be judged.
type Finding struct {
	// Severity says what it means.
	Severity Severity `json:"severity"`
	Result
	// Harm is what can happen.
	Harm string `json:"harm"`
}

// Error returns all of it on one line.
func (f Finding) Error() string {
	return fmt.Sprintf("%s: %s fails: %s: %s", f.Code, f.Formula, f.Numbers, f.Harm)
}

// Report is what is to be said of a configuration.
type Report struct {
	// Findings are in the order of the path.
	Findings []Finding `json:"findings"`
	// Held are the formulas that hold.
	Held []Result `json:"held"`
	// NotDescribed are the hops that the configuration leaves out; nothing is said of
	// them.
	NotDescribed []string `json:"not_described"`
}

// Refused are the findings that a path must not run with.
func (r Report) Refused() []Finding {
	var out []Finding
	for _, f := range r.Findings {
		if f.Severity == Refuse {
			out = append(out, f)
		}
	}
	return out
}

// Validate returns everything that is refused at once, each a Finding; see Report for
// the warnings.
func (c Config) Validate() error {
	var errs []error
	for _, f := range c.Report().Refused() {
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

// Report judges the configuration. Values that no setting can have are all that it
// reports when there are any.
func (c Config) Report() Report {
	b := &builder{report: Report{Findings: []Finding{}, Held: []Result{}, NotDescribed: []string{}}}
	for _, m := range invalid(c) {
		b.find(Refuse, CodeInvalid, m.formula, m.numbers, "it is no setting")
	}
	if len(b.report.Findings) > 0 {
		return b.report
	}
	b.c = c.withDefaults()
	for _, hop := range []struct {
		name string
		left bool
	}{{"psp", c.PSP == nil}, {"resolver", c.Resolver == nil}, {"relay", c.Relay == nil}, {"queue", c.Queue == nil},
		{"worker", c.Worker == nil}, {"inbox", c.Inbox == nil}, {"dedup_cache", c.Cache == nil}} {
		if hop.left {
			b.report.NotDescribed = append(b.report.NotDescribed, hop.name)
		}
	}
	b.memory()
	b.arrival()
	b.server()
	b.psp()
	b.queue()
	b.cache()
	return b.report
}

// builder writes a report.
type builder struct {
	c      Config
	report Report
}

func (b *builder) find(s Severity, code, formula, numbers, harm string) {
	b.report.Findings = append(b.report.Findings, Finding{s, Result{code, formula, numbers}, harm})
}

// term is one setting in a formula.
type term struct {
	member string
	value  time.Duration
}

// side is one side of a formula: its terms' sum.
type side []term

func (s side) words() string {
	return s.join(func(t term) string { return t.member })
}

// numbers is "5s + 20ms = 5.02s".
func (s side) numbers() string {
	out := s.join(func(t term) string { return deadline.Show(t.value) })
	if len(s) > 1 {
		out += " = " + deadline.Show(s.sum())
	}
	return out
}

func (s side) join(show func(term) string) string {
	parts := make([]string, 0, len(s))
	for _, t := range s {
		parts = append(parts, show(t))
	}
	return strings.Join(parts, " + ")
}

// unstated reports that a term is missing.
func (s side) unstated() bool {
	return slices.ContainsFunc(s, func(t term) bool { return t.value == 0 })
}

// sum stays at forever in place of overflowing.
func (s side) sum() time.Duration {
	var total time.Duration
	for _, t := range s {
		if t.value > deadline.Forever-total {
			return deadline.Forever
		}
		total += t.value
	}
	return total
}

// formula is left op right. The zero value of a term is "not stated".
type formula struct {
	code     string
	severity Severity
	left     side
	op       string // one of ≥ > <
	right    side
	harm     string
	// fails overrules the comparison, for the formulas that package deadline has.
	fails func() bool
}

// failing is the relation that is there when op is not.
var failing = map[string]string{"≥": "<", ">": "≤", "<": "≥"}

func (f formula) holds() bool {
	switch {
	case f.fails != nil:
		return !f.fails()
	case f.op == "≥":
		return f.left.sum() >= f.right.sum()
	case f.op == ">":
		return f.left.sum() > f.right.sum()
	}
	return f.left.sum() < f.right.sum()
}

// judge reports one formula.
func (b *builder) judge(f formula) {
	words := f.left.words() + " " + f.op + " " + f.right.words()
	var missing []string
	for _, t := range append(append(side{}, f.left...), f.right...) {
		if t.value == 0 {
			missing = append(missing, t.member)
		}
	}
	switch {
	case len(missing) > 0:
		b.find(Warn, CodeNotStated, words, strings.Join(missing, " and ")+" not stated", f.code+" was not checked")
	case f.holds():
		b.report.Held = append(b.report.Held, Result{f.code, words, f.left.numbers() + " " + f.op + " " + f.right.numbers()})
	default:
		b.find(f.severity, f.code, words, f.left.numbers()+" "+failing[f.op]+" "+f.right.numbers(), f.harm)
	}
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
