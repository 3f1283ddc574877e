package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Operation is what a fault matches.
type Operation string

// The operations. Listing and reading one object are both Retrieve.
const (
	OperationCharge   Operation = "charge"   // create or confirm a PaymentIntent
	OperationRetrieve Operation = "retrieve" // retrieve or list PaymentIntents or refunds
	OperationSearch   Operation = "search"   // search PaymentIntents
	OperationRefund   Operation = "refund"   // create a refund
)

// Action is what a fault does.
type Action string

// The actions. The first group meets any request, the second an execution only: a
// replay from the memory of a key does not use those up.
const (
	LoseRequest Action = "lose_request" // nothing happens, the connection is cut
	LoseReply   Action = "lose_reply"   // it happens, the connection is cut
	Delay       Action = "delay"        // wait By, before or after the effect
	RateLimited Action = "rate_limited" // 429; nothing happens, nothing is saved

	Decline      Action = "decline"       // the card, or the refund, is refused with DeclineCode
	Error500     Action = "error_500"     // 500, saved for the key; When: before or after the effect
	Processing   Action = "processing"    // the charge, or the refund, is undecided for By, then succeeds
	FailPending  Action = "fail_pending"  // the refund is undecided for By, then fails
	FailLater    Action = "fail_later"    // the refund succeeds, and By later the bank sends it back: it fails
	WebhookEarly Action = "webhook_early" // delivered before the API answers
	WebhookLate  Action = "webhook_late"  // delivered By later
	WebhookTwice Action = "webhook_twice" // delivered again By after the first time
	WebhookNever Action = "webhook_never" // never delivered
)

// When places a delay or a 500 around the effect.
type When string

// The places.
const (
	BeforeEffect When = "before"
	AfterEffect  When = "after"
)

// Fault is one line of the script. Of all faults that match a request, the first
// of each action is used.
type Fault struct {
	// Operation is what the fault matches.
	Operation Operation
	// Do is what it does.
	Do Action
	// Count is how many requests it meets. Defaults to 1.
	Count int
	// Always makes it meet every request. Defaults to false.
	Always bool
	// By is the duration of Delay, Processing, FailPending, FailLater, WebhookLate and
	// WebhookTwice.
	// Defaults to 0, which only WebhookTwice accepts.
	By time.Duration
	// When places Delay and Error500. Defaults to BeforeEffect.
	When When
	// DeclineCode is Decline's reason, or why a refund fails. Defaults to
	// generic_decline for a charge, charge_disputed for a refund that is refused and
	// expired_or_canceled_card for one that fails.
	DeclineCode string
}

type armedFault struct {
	Fault
	left int
}

var actionsOf = map[Operation][]Action{
	OperationCharge:   {LoseRequest, LoseReply, Delay, RateLimited, Decline, Error500, Processing, WebhookEarly, WebhookLate, WebhookTwice, WebhookNever},
	OperationRefund:   {LoseRequest, LoseReply, Delay, RateLimited, Decline, Error500, Processing, FailPending, FailLater, WebhookEarly, WebhookLate, WebhookTwice, WebhookNever},
	OperationRetrieve: {LoseRequest, LoseReply, Delay, RateLimited, Error500},
	OperationSearch:   {LoseRequest, LoseReply, Delay, RateLimited, Error500},
}

// Validate returns everything that is wrong with the fault.
func (f Fault) Validate() error {
	actions, known := actionsOf[f.Operation]
	if !known {
		return fmt.Errorf("operation %q is none of charge, retrieve, search, refund", f.Operation)
	}
	var errs []error
	if !slices.Contains(actions, f.Do) {
		errs = append(errs, fmt.Errorf("do %q is none of %v, which %s knows", f.Do, actions, f.Operation))
	}
	if f.Count < 0 || (f.Always && f.Count != 0) {
		errs = append(errs, errors.New("count must be at least 1, or always must stand alone"))
	}
	fails := f.Do == FailPending || f.Do == FailLater
	needsBy := f.Do == Delay || f.Do == Processing || f.Do == WebhookLate || fails
	switch {
	case f.By < 0:
		errs = append(errs, errors.New("by must not be negative"))
	case needsBy && f.By == 0:
		errs = append(errs, fmt.Errorf("do %q needs by, a duration", f.Do))
	case f.By > 0 && !needsBy && f.Do != WebhookTwice:
		errs = append(errs, fmt.Errorf("do %q takes no by", f.Do))
	}
	if f.When != "" && ((f.When != BeforeEffect && f.When != AfterEffect) || (f.Do != Delay && f.Do != Error500)) {
		errs = append(errs, errors.New("when is before or after, for delay and error_500 only"))
	}
	if f.DeclineCode != "" && f.Do != Decline && !fails {
		errs = append(errs, errors.New("decline_code is for decline, fail_pending and fail_later only"))
	}
	return errors.Join(errs...)
}

// AddFaults appends to the script: all of the faults, or none and an error.
func (c *Core) AddFaults(faults ...Fault) error {
	var errs []error
	for i, f := range faults {
		if err := f.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("emulator: fault %d: %w", i+1, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range faults {
		c.faults = append(c.faults, &armedFault{Fault: f, left: max(1, f.Count)})
	}
	return nil
}

// Faults returns what is left of the script; Count is what remains of it.
func (c *Core) Faults() []Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Fault, 0, len(c.faults))
	for _, f := range c.faults {
		left := f.Fault
		if !f.Always {
			left.Count = f.left
		}
		out = append(out, left)
	}
	return out
}

// ClearFaults ends the script.
func (c *Core) ClearFaults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// take uses up the first fault of an action, and of a place where one is named.
// The caller holds the lock.
func (c *Core) take(op Operation, do Action, when When) *Fault {
	for i, f := range c.faults {
		at := f.When
		if at == "" {
			at = BeforeEffect
		}
		if f.Operation != op || f.Do != do || (when != "" && at != when) {
			continue
		}
		if !f.Always {
			if f.left--; f.left == 0 {
				c.faults = slices.Delete(c.faults, i, i+1)
			}
		}
		taken := f.Fault
		taken.When = at
		return &taken
	}
	return nil
}

// faultJSON is the fault on the control endpoint.
type faultJSON struct {
	Operation   Operation `json:"operation"`
	Do          Action    `json:"do"`
	Count       *int      `json:"count,omitempty"`
	Always      bool      `json:"always,omitempty"`
	By          string    `json:"by,omitempty"`
	When        When      `json:"when,omitempty"`
	DeclineCode string    `json:"decline_code,omitempty"`
}

// MarshalJSON writes the form that [ParseFaults] reads; By is text, like "1.5s".
func (f Fault) MarshalJSON() ([]byte, error) {
	j := faultJSON{Operation: f.Operation, Do: f.Do, Always: f.Always, When: f.When, DeclineCode: f.DeclineCode}
	if f.Count != 0 {
		j.Count = &f.Count
	}
	if f.By != 0 {
		j.By = f.By.String()
	}
	return json.Marshal(j)
}

// ParseFaults reads a JSON list of faults. Unknown fields, unknown values and
// anything behind the list are refused.
func ParseFaults(b []byte) ([]Fault, error) {
	var list []faultJSON
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("emulator: faults must be a JSON list: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("emulator: there is something behind the list of faults")
	}
	if list == nil {
		return nil, errors.New("emulator: faults must be a JSON list, not null")
	}
	out := make([]Fault, 0, len(list))
	for i, j := range list {
		f := Fault{Operation: j.Operation, Do: j.Do, Always: j.Always, When: j.When, DeclineCode: j.DeclineCode}
		if j.Count != nil {
			if *j.Count < 1 {
				return nil, fmt.Errorf("emulator: fault %d: count must be at least 1", i+1)
			}
			f.Count = *j.Count
		}
		if j.By != "" {
			by, err := time.ParseDuration(j.By)
			if err != nil {
				return nil, fmt.Errorf("emulator: fault %d: by must be a duration like \"1.5s\"", i+1)
			}
			f.By = by
		}
		if err := f.Validate(); err != nil {
			return nil, fmt.Errorf("emulator: fault %d: %w", i+1, err)
		}
		out = append(out, f)
	}
	return out, nil
}
