package record

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
)

// Live drops a claim that has expired.
func Live(c *effect.Claim, l effect.Look) *effect.Claim {
	if c.Expired(l.Now) {
		return nil
	}
	return c
}

// NewClaim is the claim that b asks for.
func NewClaim(b effect.Begin) effect.Claim {
	if b.Void {
		return effect.Claim{Scope: b.Scope, GuardID: b.GuardID, State: effect.ClaimVoid, Owner: b.Owner, ExpiresAt: micro(b.Until)}
	}
	return effect.Claim{Scope: b.Scope, GuardID: b.GuardID, Fingerprint: b.Fingerprint, State: effect.InProgress,
		Owner: b.Owner, Until: micro(b.Until)}
}

// Mine reports whether the claim is the owner's and in progress.
func Mine(c *effect.Claim, owner string) bool {
	return c != nil && c.State == effect.InProgress && c.Owner == owner
}

// Decided reports whether seen are the records that decide b, rather than what is left
// of a moment between two transactions.
func Decided(b effect.Begin, seen effect.Seen) bool {
	if b.Void {
		return seen.Guard != nil && (seen.Guard.State != effect.Void || seen.Claim != nil)
	}
	return seen.Claim != nil && (seen.Guard != nil || !Mine(seen.Claim, b.Owner))
}

// BeginOf is the Begin that an adoption may stand for.
func BeginOf(a effect.Adopt) effect.Begin {
	return effect.Begin{Scope: a.Scope, GuardID: a.GuardID, Fingerprint: a.Fingerprint, Owner: a.Owner, Now: a.Now,
		Until: a.Until, Row: a.Row}
}

// AdoptClaim applies the claim part of an adoption to the stored claim, nil when
// absent or expired. When it is allowed and something changes, next is the claim
// to write.
func AdoptClaim(c *effect.Claim, a effect.Adopt) (next *effect.Claim, allowed bool) {
	if c == nil {
		n := NewClaim(BeginOf(a))
		return &n, true
	}
	stale := c.State == effect.InProgress && effect.Stale(c.Until, a.Now, a.Margin)
	pointer := c.State == effect.Complete && c.Answer == nil
	if c.Owner != a.ClaimFrom || !stale && !pointer {
		return nil, Mine(c, a.Owner)
	}
	n := *c
	n.State, n.Owner, n.Until, n.ExpiresAt = effect.InProgress, a.Owner, a.Until, time.Time{}
	return &n, true
}

// AdoptGuard applies the guard part of an adoption to a stored guard. When it is
// allowed and something changes, next is the guard to write. An absent guard is
// the caller's matter.
func AdoptGuard(g effect.Guard, a effect.Adopt) (next *effect.Guard, allowed bool) {
	if g.State != effect.Pending && g.State != effect.Unknown {
		return nil, false
	}
	if g.Owner != a.GuardFrom || !effect.Stale(g.Until, a.Now, a.Margin) {
		return nil, g.Owner == a.Owner
	}
	if g.State == effect.Pending {
		g.State = a.To
	}
	g.Owner, g.Until, g.UpdatedAt = a.Owner, a.Until, a.Now
	g.Tries++
	return &g, true
}

// Holds reports whether the claim has the completion's final answer already.
func Holds(c *effect.Claim, done effect.Completion, answer []byte) bool {
	if c == nil || c.Owner != done.Owner || c.State != effect.Complete || answer == nil {
		return false
	}
	stored, err := EncodeAnswer(c.Answer)
	return err == nil && bytes.Equal(stored, answer)
}

// From are the states of s.From that may move to s.To.
func From(s effect.Settle) []string {
	out := []string{}
	for _, f := range s.From {
		if effect.CanMove(f, s.To) {
			out = append(out, string(f))
		}
	}
	return out
}

// MaySettle reports whether the guard may make the move.
func MaySettle(g effect.Guard, s effect.Settle) bool {
	return slices.Contains(From(s), string(g.State)) && (!s.Fenced || g.Owner == s.By)
}

// NextAt is when a resolver should ask after the settlement, zero for never.
func NextAt(s effect.Settle) time.Time {
	if s.To != effect.Unknown {
		return time.Time{}
	}
	return s.NextAt
}

// OtherID is the refusal of a guard whose scope has another one. Nothing of the
// operation is written: two guards of one scope would be two effects.
func OtherID() error { return Invalid("this scope is recorded under another id") }

// CheckBegin refuses what can never be written.
func CheckBegin(b effect.Begin) error {
	if err := b.Scope.Valid(); err != nil {
		return err
	}
	if b.GuardID == "" || b.Owner == "" {
		return Invalid("the guard id or the owner is empty")
	}
	return retryproof.CheckIDs("the guard id", string(b.GuardID))
}

// CheckAdopt refuses what can never be written.
func CheckAdopt(a effect.Adopt) error {
	if a.GuardID == "" || a.Owner == "" {
		return Invalid("the guard id or the owner is empty")
	}
	if a.To != effect.Pending && a.To != effect.Unknown {
		return Invalid("an adopted guard is PENDING or UNKNOWN")
	}
	if !a.GuardOnly || a.Insert {
		if err := a.Scope.Valid(); err != nil {
			return err
		}
	}
	return retryproof.CheckIDs("the guard id", string(a.GuardID))
}

// CheckSettle refuses what can never be written, before anything is.
func CheckSettle(s effect.Settle) error {
	switch {
	case s.ID == "":
		return Invalid("the guard id is empty")
	case s.Fenced && s.By == "":
		return Invalid("a fenced settlement needs its owner's token")
	case len(s.Result) > effect.MaxResultBytes:
		return Invalid("the result is longer than 8 KiB")
	}
	for _, e := range []*effect.Evidence{s.Evidence, s.Note} {
		if e == nil {
			continue
		}
		if err := e.Check(); err != nil {
			return err
		}
	}
	if s.Inbox != nil {
		if err := CheckInbox(*s.Inbox, s.Now); err != nil {
			return err
		}
	}
	if err := ledger.Check(s.Postings); err != nil {
		return err
	}
	return CheckEvents(s.Events)
}

// CheckInbox refuses a key that names no message or no consumer, so that two consumers
// would take each other's messages for their own, and a record without a time, which the
// next clean-up would take for the oldest.
func CheckInbox(k retryproof.InboxKey, now time.Time) error {
	switch {
	case k.EventID == "":
		return Invalid("the inbox key has no event id")
	case k.Consumer == "":
		return Invalid("the inbox key has no consumer")
	case now.IsZero():
		return Invalid("a message is noted without a time")
	}
	return retryproof.CheckIDs("a part of the inbox key", k.EventID, k.Source, k.Consumer)
}

// OtherEntry is why an entry is refused whose ref has another one, or a part of it.
const OtherEntry = "the ref of the postings has another entry already"

// Entries groups postings that ledger.Check accepts by ref, and sorts refs and each
// entry's accounts: writers lock rows in one order, and equal entries are equal
// slices.
func Entries(postings []ledger.Posting) [][]ledger.Posting {
	sorted := slices.SortedFunc(slices.Values(postings), func(a, b ledger.Posting) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Account, b.Account))
	})
	var out [][]ledger.Posting
	for from := 0; from < len(sorted); {
		to := from + 1
		for to < len(sorted) && sorted[to].Ref == sorted[from].Ref {
			to++
		}
		out = append(out, sorted[from:to])
		from = to
	}
	return out
}

// CheckEvents refuses events that nobody could name, or that no queue could order:
// what the relay could only park is refused while its writer can still be told. A
// type is a label that nothing here depends on, so it may be empty.
func CheckEvents(events []retryproof.Event) error {
	for _, e := range events {
		if e.ID == "" || e.Group == "" {
			return Invalid("an event lacks its id or its group")
		}
		if err := retryproof.CheckIDs("the id or the group of an event", e.ID, e.Group); err != nil {
			return err
		}
	}
	return nil
}

// CheckIntents refuses intents that nobody could name.
func CheckIntents(intents []notify.Intent) error {
	for _, i := range intents {
		if i.EventID == "" || i.Channel == "" {
			return Invalid("an intent lacks its event or its channel")
		}
		if err := retryproof.CheckIDs("the event or the channel of an intent", i.EventID, i.Channel); err != nil {
			return err
		}
	}
	return nil
}

// KeepsBalance reports whether a balance is kept for the account. Only merchants'
// are: a system account is part of every entry, and its row would make all
// settlements wait for each other.
func KeepsBalance(account string) bool { return strings.HasPrefix(account, "merchant:") }

// NewIntents are the intents as they are first stored: PENDING, unsent, created
// now unless they say when.
func NewIntents(intents []notify.Intent, now time.Time) []notify.Intent {
	out := slices.Clone(intents)
	for i := range out {
		out[i].State, out[i].Sends, out[i].SentAt, out[i].NextAt, out[i].Reason = notify.Pending, 0, time.Time{}, time.Time{}, ""
		if out[i].CreatedAt.IsZero() {
			out[i].CreatedAt = now
		}
	}
	return out
}
