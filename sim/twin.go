package sim

import (
	"github.com/retryproof/retryproof/payments"
)

// Twin replaces one rule by what somebody without it would do. Twins live here,
// never in production code: a twin wraps what a process is handed, or changes what
// a phone does, and the system around it stays the same.
type Twin struct {
	// Rule is the rule's name, as in `explore --without RULE`.
	Rule string
	// Instead says what the twin does.
	Instead string
	// Harms are the harms that may come of it; one of them must be found.
	Harms []string
	// Stores replaces the databases.
	Stores func(payments.Stores) payments.Stores
	// Deps wraps what a node's life is handed.
	Deps func(w *World, p *Process, d payments.Deps) payments.Deps
	// Config changes the configuration.
	Config func(payments.Config) payments.Config
	// Phone changes how buyers behave.
	Phone func(*Buyer)
	// World changes the world before it begins, in what a system with all rules
	// withstands: more skew, longer pauses.
	World func(*Plan)
}
