// Package push holds the nouns of a push provider, the outside company that
// shows a notification on a phone.
package push

// Notification is one message for one person. Providers take no idempotency
// key; a repeat with the same ReplaceID takes the place of the first on the
// screen instead of stacking up (mission F2).
type Notification struct {
	// To is the person, for example the buyer's id.
	To string
	// ReplaceID names the thing that is announced, for example the payment id.
	ReplaceID string
	Title     string
	Body      string
}
