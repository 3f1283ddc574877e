package story

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/sim"
)

// recorded are the stores of the branch, below every seam, so that what is noted
// here was committed, whether or not the caller lived to see it.
func (st *stage) recorded() payments.Stores {
	stores := st.store.Payments()
	if st.setting.split {
		keys := st.store.Keys()
		if st.setting.keysDown {
			keys = deadKeys{}
		}
		stores.Effects = effect.Split(keys, &mortalGuards{Guards: st.store.PaymentGuards(), st: st, armed: st.setting.crashBetween})
	}
	stores.Effects = recordedEffects{stores.Effects, st}
	stores.Refunds = recordedRefunds{stores.Refunds, st}
	stores.Outbox = recordedOutbox{stores.Outbox, st}
	stores.Inbox = recordedInbox{stores.Inbox, st}
	stores.Notify = recordedNotify{stores.Notify, st}
	return stores
}

// tag is the step that the running task belongs to: a request that stood still
// keeps its own, whatever arrived meanwhile.
func (st *stage) tag() string {
	task := st.w.RunningTask()
	tag, known := st.tasks[task]
	if !known {
		tag = st.tagOf(st.w.Running())
		st.tasks[task] = tag
	}
	return tag
}

// tagOf is the step that a process is in: for an API server the request that
// arrived last.
func (st *stage) tagOf(who string) string {
	events := st.w.Trace().Events
	for i := len(events) - 1; i >= 0; i-- {
		if e := events[i]; e.Where == who && e.How == "arrives" {
			return strings.TrimPrefix(e.What, "http ")
		}
	}
	return st.tags[who]
}

// by names the holder of a token.
func (st *stage) by(token string) string {
	switch {
	case st.owners[token] != "":
		return st.owners[token]
	case strings.HasPrefix(token, "webhook-"):
		return "webhook"
	case strings.HasPrefix(token, "resolver-"):
		return "resolver"
	}
	return token
}

func at(t time.Time) Seconds { return Seconds(t.Sub(sim.Epoch)) }

type recordedEffects struct {
	effect.Store
	st *stage
}

func (e recordedEffects) Begin(ctx context.Context, b effect.Begin) (effect.Seen, error) {
	st := e.st
	tag := st.tag()
	st.owners[b.Owner] = tag
	seen, err := e.Store.Begin(ctx, b)
	if err != nil {
		st.say(st.w.Running(), tag, "claim", "cannot record: "+err.Error())
		return seen, err
	}
	if b.Void {
		st.sawVoid(tag, b, seen)
		return seen, nil
	}
	st.sawClaim(tag, b, seen)
	st.sawRow(tag, b, seen)
	return seen, nil
}

// sawVoid notes what became of the question for a key.
func (st *stage) sawVoid(tag string, b effect.Begin, seen effect.Seen) {
	g, c := seen.Guard, seen.Claim
	st.from[tag] = "ledger row"
	if g == nil {
		st.from[tag] = "key record"
		return
	}
	name := st.names.payment(string(g.ID))
	if g.SettledBy != b.Owner {
		st.say("ledger", tag, "row", name+" is "+string(g.State)+" already: the key stays as it is")
		return
	}
	st.ids = append(st.ids, g.ID)
	st.moves[g.ID] = append(st.moves[g.ID], Move{At: Seconds(st.w.Now()), To: string(g.State), By: tag})
	st.say("ledger", tag, "void", fmt.Sprintf("%s VOID under unique (%s, %s): it never ran and never will", name, b.Scope.Caller, keyName(b.Scope.Key)))
	scope := "payments:" + b.Scope.Caller + ":" + keyName(b.Scope.Key)
	switch {
	case c == nil:
	case c.Owner == b.Owner:
		st.claimed[b.Scope.Key] = true
		st.say("keys", tag, "void", scope+" VOID, expires "+at(c.ExpiresAt).String())
	default:
		st.say("keys", tag, "claim", scope+" is "+string(c.State)+", owner "+st.by(c.Owner)+": left")
	}
}

// sawClaim notes what became of the claim.
func (st *stage) sawClaim(tag string, b effect.Begin, seen effect.Seen) {
	c := seen.Claim
	scope := "payments:" + b.Scope.Caller + ":" + keyName(b.Scope.Key)
	switch {
	case st.setting.keysDown:
		st.say("keys", tag, "claim", "the key store does not answer: the ledger alone decides")
	case c == nil:
		st.say("keys", tag, "claim", "no record")
	case c.Owner == b.Owner && c.State == effect.InProgress:
		was := map[bool]string{true: "had expired, which is absent", false: "was absent"}[st.claimed[b.Scope.Key]]
		st.claimed[b.Scope.Key] = true
		st.say("keys", tag, "claim", fmt.Sprintf("%s %s: IN_PROGRESS, %s, owner %s, until %s", scope, was,
			st.names.fingerprint(string(b.Fingerprint)), tag, at(c.Until)))
	case c.State == effect.InProgress:
		st.say("keys", tag, "claim", fmt.Sprintf("%s is IN_PROGRESS, owner %s, until %s", scope, st.by(c.Owner), at(c.Until)))
	case c.State == effect.ClaimVoid:
		st.from[tag] = "key record"
		st.say("keys", tag, "claim", scope+" is VOID")
	case c.Answer != nil:
		st.from[tag] = "key record"
		st.say("keys", tag, "claim", scope+" is COMPLETE with the final answer")
	default:
		st.say("keys", tag, "claim", scope+" is COMPLETE with a pointer to "+st.names.payment(string(c.GuardID)))
	}
}

// sawRow notes what became of the ledger row.
func (st *stage) sawRow(tag string, b effect.Begin, seen effect.Seen) {
	g := seen.Guard
	if g == nil {
		return
	}
	name := st.names.payment(string(g.ID))
	if g.Owner == b.Owner && g.State == effect.Pending && !slices.Contains(st.ids, g.ID) {
		st.ids = append(st.ids, g.ID)
		st.moves[g.ID] = append(st.moves[g.ID], Move{At: Seconds(st.w.Now()), To: string(g.State), By: tag})
		st.say("ledger", tag, "row", name+" PENDING, before any call")
		return
	}
	if st.from[tag] == "" && g.State != effect.Pending {
		st.from[tag] = "ledger row"
	}
	if g.State != effect.Pending {
		st.say("ledger", tag, "row", name+" is "+string(g.State))
	}
}

func (e recordedEffects) Adopt(ctx context.Context, a effect.Adopt) (effect.Seen, error) {
	st := e.st
	seen, err := e.Store.Adopt(ctx, a)
	if err != nil || seen.Guard == nil || seen.Guard.Owner != a.Owner {
		return seen, err
	}
	name := st.names.payment(string(seen.Guard.ID))
	if a.GuardOnly {
		st.say("resolver", st.tag(), "adopt", "picks up "+name+", "+string(seen.Guard.State)+", and asks the PSP again with "+name+":charge")
		return seen, nil
	}
	tag := st.by(a.Owner)
	what := tag + " takes over: the lease and its margin are over; "
	if !slices.Contains(st.ids, seen.Guard.ID) {
		st.ids = append(st.ids, seen.Guard.ID)
		st.moves[seen.Guard.ID] = append(st.moves[seen.Guard.ID], Move{At: Seconds(st.w.Now()), To: string(seen.Guard.State), By: tag})
		what += "no row yet: " + name + " PENDING"
	} else {
		what += name + " is " + string(seen.Guard.State)
	}
	st.say("ledger", tag, "adopt", what)
	return seen, nil
}

func (e recordedEffects) Settle(ctx context.Context, s effect.Settle) (effect.Settled, error) {
	st := e.st
	before, _ := st.store.Payments().Ledger.Payment(background, s.ID)
	out, err := e.Store.Settle(ctx, s)
	if err != nil {
		return out, err
	}
	tag, name := st.by(s.By), st.names.payment(string(s.ID))
	if s.Inbox != nil {
		result := map[bool]string{true: "moves", false: "late"}[out.Moved]
		if out.Repeat {
			result = "dropped"
		}
		st.hooks = append(st.hooks, Webhook{Seconds(st.w.Now()), result})
	}
	switch {
	case out.Moved:
		st.moves[s.ID] = append(st.moves[s.ID], Move{At: Seconds(st.w.Now()), From: string(before.State), To: string(s.To), By: tag})
		what := fmt.Sprintf("%s %s → %s", name, before.State, s.To)
		for _, event := range s.Events {
			what += ", journal entries, outbox row " + st.names.show(event.ID)
		}
		st.from[tag] = map[bool]string{true: "charge", false: "ledger row"}[s.To.Final()]
		st.say("ledger", tag, "settle", what)
	case out.Repeat:
		st.say("webhook", tag, "settle", "evt_1 was seen before: dropped")
	case s.Inbox != nil:
		st.say("webhook", tag, "settle", "evt_1 is recorded; "+name+" is "+string(before.State)+" already: no move")
	default:
		st.say("ledger", tag, "settle", fmt.Sprintf("%s's completion fails: %s has another owner", tag, name))
	}
	if out.Completed {
		st.say("keys", tag, "complete", fmt.Sprintf("COMPLETE, %s, expires %s", holds(s.Claim.Answer, name), at(s.Claim.ExpiresAt)))
	}
	return out, nil
}

func holds(a *effect.Answer, name string) string {
	if a == nil {
		return "a pointer to " + name
	}
	return fmt.Sprintf("the final answer %d", a.Status)
}

func (e recordedEffects) Complete(ctx context.Context, c effect.Completion) (bool, error) {
	ok, err := e.Store.Complete(ctx, c)
	if ok && err == nil {
		tag := e.st.tag()
		e.st.say("keys", tag, "complete", fmt.Sprintf("rewritten: COMPLETE, %s, expires %s", holds(c.Answer, "the row"), at(c.ExpiresAt)))
	}
	return ok, err
}

func (e recordedEffects) Look(ctx context.Context, l effect.Look) (effect.Seen, error) {
	seen, err := e.Store.Look(ctx, l)
	if tag := e.st.tag(); err == nil && e.st.w.Running() != "resolver" {
		e.st.from[tag] = "ledger row"
		if seen.Claim != nil && seen.Claim.Answer != nil {
			e.st.from[tag] = "key record"
		}
	}
	return seen, err
}

type recordedOutbox struct {
	outbox.Store
	st *stage
}

func (o recordedOutbox) Delete(ctx context.Context, relay string, eventIDs []string) ([]string, error) {
	deleted, err := o.Store.Delete(ctx, relay, eventIDs)
	for _, id := range deleted {
		o.st.say("relay", o.st.tag(), "delete", "deletes the outbox row "+o.st.names.show(id))
	}
	return deleted, err
}

type recordedInbox struct {
	inbox.Store
	st *stage
}

func (i recordedInbox) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	st := i.st
	before := st.balances()[merchant]
	first, err := i.Store.Apply(ctx, a)
	event := st.names.show(a.Key.EventID)
	switch {
	case err != nil:
	case !first:
		st.say("ledger", st.tag(), "inbox", "the inbox has "+event+": nothing is credited")
	default:
		what := "one transaction: inbox row " + event
		for _, p := range a.Postings {
			if to, ok := strings.CutPrefix(p.Account, payments.MerchantAccount("")); ok {
				st.credits = append(st.credits, Credit{Merchant: to, Amount: p.Amount, Event: event, At: Seconds(st.w.Now())})
				do := "credit %s to"
				if p.Amount < 0 {
					do = "debit %s from"
				}
				what += fmt.Sprintf(", "+do+" %s (%s → %s)", amount(max(p.Amount, -p.Amount)), to, amount(before), amount(st.balances()[merchant]))
			}
		}
		for _, n := range a.Intents {
			what += fmt.Sprintf(", intent (%s, %s) %s", event, n.Channel, n.State)
		}
		st.say("ledger", st.tag(), "inbox", what)
	}
	return first, err
}

type recordedNotify struct {
	notify.Store
	st *stage
}

func (n recordedNotify) Intent(ctx context.Context, k notify.Key) (*notify.Intent, error) {
	i, err := n.Store.Intent(ctx, k)
	if err == nil && i != nil && i.State == notify.Sent {
		n.st.say(n.st.w.Running(), n.st.tag(), "intent", "the intent is SENT")
	}
	return i, err
}

func (n recordedNotify) MarkSent(ctx context.Context, k notify.Key, now time.Time) (bool, error) {
	ok, err := n.Store.MarkSent(ctx, k, now)
	if ok {
		n.st.say("ledger", n.st.tag(), "mark", "intent ("+n.st.names.show(k.EventID)+", "+k.Channel+") SENT")
	}
	return ok, err
}

// deadKeys is a key store that cannot be reached.
type deadKeys struct{}

var errKeysDown = retryproof.Refused(retryproof.CodeUnavailable, "the key store cannot be reached", nil)

func (deadKeys) ClaimKey(context.Context, effect.Begin) (*effect.Claim, error) {
	return nil, errKeysDown
}
func (deadKeys) AdoptKey(context.Context, effect.Adopt) (*effect.Claim, error) {
	return nil, errKeysDown
}
func (deadKeys) CompleteKey(context.Context, effect.Completion) (bool, error) {
	return false, errKeysDown
}
func (deadKeys) ReleaseKey(context.Context, effect.Release) error            { return errKeysDown }
func (deadKeys) LookKey(context.Context, effect.Look) (*effect.Claim, error) { return nil, errKeysDown }

// mortalGuards kills the first process that claimed a key and comes to record its
// row: between two databases there is such a moment.
type mortalGuards struct {
	effect.Guards
	st    *stage
	armed bool
}

func (g *mortalGuards) RecordGuard(ctx context.Context, b effect.Begin) (*effect.Guard, error) {
	if g.armed {
		g.armed = false
		c, err := g.st.store.Keys().LookKey(background, effect.Look{Scope: b.Scope, GuardID: b.GuardID, Now: b.Now})
		g.st.note(err)
		g.st.sawClaim(g.st.tag(), b, effect.Seen{Claim: c})
		g.st.w.KillRunning("record guard")
	}
	return g.Guards.RecordGuard(ctx, b)
}
