// Package psp holds the nouns of a payment service provider (PSP), the outside
// company that charges the card. The payments package declares the interface
// that it needs; psp/stripe satisfies it for Stripe and for psp/emulator alike.
package psp

import "time"

// State is what became of a charge or of a refund.
type State string

const (
	// Succeeded: the card was charged, or the money given back.
	Succeeded State = "SUCCEEDED"
	// Declined: the card was definitely not charged and this charge never will be.
	Declined State = "DECLINED"
	// Processing: the PSP has it and has not decided.
	Processing State = "PROCESSING"
	// Failed: the refund definitely did not give the money back, or the money came
	// back to us, and this refund never will. A charge is never Failed.
	Failed State = "FAILED"
)

// ChargeRequest asks for one charge. A repeat carries identical fields.
type ChargeRequest struct {
	// Key is the PSP's idempotency key, derived from the payment:
	// payment id + ":charge".
	Key string
	// Reference is our own name of the payment (the payment id), stored with the
	// charge so that it can be found after the PSP forgot the key.
	Reference string
	// Amount is in minor units of Currency (cents for USD), greater than 0.
	Amount int64
	// Currency is ISO 4217, upper case.
	Currency string
	// Method is the payment method, for example "pm_1".
	Method string
}

// Charge is a charge as the PSP knows it.
type Charge struct {
	// ID is the PSP's id of the charge.
	ID string
	// Reference is the ChargeRequest's.
	Reference string
	Amount    int64
	Currency  string
	State     State
	// DeclineCode says why, when State is Declined.
	DeclineCode string
	// Created is the PSP's own time.
	Created time.Time
	// Replayed says that the PSP answered from its memory of the key.
	Replayed bool
}

// WebhookEvent is a verified message from the PSP about a charge or about a refund.
// A genuine message that is about neither has an empty Charge and an empty Refund:
// take it and forget it.
type WebhookEvent struct {
	// ID is the sender's event id: the key of the webhook inbox.
	ID   string
	Type string
	// Charge is a charge of ours; its Reference is never empty then.
	Charge Charge
	// Refund is a refund, when the message is about one: its ID is never empty then.
	// Its Reference is empty when the refund is not one that we asked for: somebody
	// made it by hand.
	Refund Refund
	At     time.Time
}
