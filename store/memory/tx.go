package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/version"
)

// Tx is an open transaction; see [Store.Within]. Nothing of it is visible to
// others before it commits. Its methods are safe for concurrent use and return an
// error when the transaction is over.
type Tx struct {
	s    *Store
	mu   sync.Mutex
	over bool
	// ops are applied in order at the commit, when all of reads still hold.
	ops   []func(*Store)
	reads []func(*Store) bool
	// noted are the inbox keys of this transaction, settled its guards.
	noted   map[retryproof.InboxKey]bool
	settled map[retryproof.ID]bool
	// marks and items are the versions and locators that it has written.
	marks map[subject]*version.Mark
	items map[locator.Name]*locator.Record
	// entries are all that this transaction will post.
	entries [][]ledger.Posting
}

// Within runs fn in a transaction: what fn asks of tx happens at once when fn
// returns nil, and never when it returns an error or panics. The store is not
// locked while fn runs. When somebody else changed what fn had read, nothing is
// written and the error is NotDone with CodeConflict: run it again.
func (s *Store) Within(fn func(tx *Tx) error) error {
	tx := &Tx{s: s, noted: map[retryproof.InboxKey]bool{}, settled: map[retryproof.ID]bool{}}
	defer tx.end() // even when fn panics
	if err := fn(tx); err != nil {
		return err
	}
	return tx.commit()
}

func (tx *Tx) end() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.over = true
}

func (tx *Tx) commit() error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.over = true
	tx.s.mu.Lock()
	defer tx.s.mu.Unlock()
	for _, holds := range tx.reads {
		if !holds(tx.s) {
			return retryproof.Refused(retryproof.CodeConflict, "another transaction changed what this one had read", nil)
		}
	}
	if err := tx.s.ledger.fits(tx.entries); err != nil {
		return err
	}
	for _, apply := range tx.ops {
		apply(tx.s)
	}
	return nil
}

// open takes the transaction's lock unless it is over. Callers must unlock when
// the error is nil.
func (tx *Tx) open(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return retryproof.Refused(retryproof.CodeUnavailable, "the caller's context has ended", cause)
	}
	tx.mu.Lock()
	if tx.over {
		tx.mu.Unlock()
		return invalid("the transaction is over: what is written now would be lost")
	}
	return nil
}

// Publish stores an event for the outbox; one with its id that is there already
// is left. A publish after the transaction is over is an error, NotDone.
func (tx *Tx) Publish(ctx context.Context, e retryproof.Event) error {
	events := []retryproof.Event{e}
	if err := checkEvents(events); err != nil {
		return err
	}
	if err := tx.open(ctx); err != nil {
		return err
	}
	defer tx.mu.Unlock()
	events[0].Body = slices.Clone(e.Body)
	tx.ops = append(tx.ops, func(s *Store) { s.outbox.insert(events) })
	return nil
}

// Once notes a message. It reports whether it is the first of its key: a caller
// that is told false has nothing left to do.
func (tx *Tx) Once(ctx context.Context, k retryproof.InboxKey, now time.Time) (first bool, err error) {
	if err := checkInbox(k, now); err != nil {
		return false, err
	}
	if err := tx.open(ctx); err != nil {
		return false, err
	}
	defer tx.mu.Unlock()
	return tx.once(k, now), nil
}

func (tx *Tx) once(k retryproof.InboxKey, now time.Time) bool {
	if tx.noted[k] {
		return false
	}
	tx.s.mu.Lock()
	there := tx.s.inbox.has(k)
	tx.s.mu.Unlock()
	tx.reads = append(tx.reads, func(s *Store) bool { return s.inbox.has(k) == there })
	if there {
		tx.ops = append(tx.ops, func(s *Store) { s.inbox.meet(k, round(now)) })
	} else {
		tx.noted[k] = true
		tx.ops = append(tx.ops, func(s *Store) { s.inbox.note(k, round(now)) })
	}
	return !there
}

// Intend stores a notification intent as PENDING, created at in.CreatedAt; one
// that is there is left.
func (tx *Tx) Intend(ctx context.Context, in notify.Intent) error {
	intents := []notify.Intent{in}
	if err := checkIntents(intents); err != nil {
		return err
	}
	if in.CreatedAt.IsZero() {
		return invalid("the intent has no time of creation")
	}
	if err := tx.open(ctx); err != nil {
		return err
	}
	defer tx.mu.Unlock()
	tx.ops = append(tx.ops, func(s *Store) { s.intents.insert(intents, in.CreatedAt) })
	return nil
}

// Post writes entries to the ledger; see [payments.Ledger]. One whose ref has another
// entry is refused at the commit.
func (tx *Tx) Post(ctx context.Context, postings []ledger.Posting) error {
	if err := ledger.Check(postings); err != nil {
		return err
	}
	if err := tx.open(ctx); err != nil {
		return err
	}
	defer tx.mu.Unlock()
	all := entries(postings)
	tx.entries = append(tx.entries, all...)
	tx.ops = append(tx.ops, func(s *Store) { s.ledger.post(all) })
	return nil
}

// Apply does what inbox.Store's Apply does, as a part of this transaction.
func (tx *Tx) Apply(ctx context.Context, a inbox.Apply) (first bool, err error) {
	if err := ledger.Check(a.Postings); err != nil {
		return false, err
	}
	first, err = tx.Once(ctx, a.Key, a.Now)
	if err != nil || !first {
		return false, err
	}
	if err := tx.Post(ctx, a.Postings); err != nil {
		return false, err
	}
	for _, in := range a.Intents {
		if in.CreatedAt.IsZero() {
			in.CreatedAt = a.Now
		}
		if err := tx.Intend(ctx, in); err != nil {
			return false, err
		}
	}
	for _, e := range a.Events {
		if err := tx.Publish(ctx, e); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Finish ends an attempt of the generic table in this transaction: its outcome, its
// answer and what else the transaction writes happen together, or none of them. Return
// its error from fn, so that nothing does; see [effect.Attempt.FinishWith].
func (tx *Tx) Finish(ctx context.Context, a *effect.Attempt, f effect.Finish) error {
	return a.FinishWith(ctx, f, tx.Settle)
}

// Settle moves a guard of the generic table, and writes what goes with the move,
// as a part of this transaction. The result is what will be there after the
// commit, without Completed. A guard can be settled once per transaction.
func (tx *Tx) Settle(ctx context.Context, m effect.Settle) (effect.Settled, error) {
	return tx.settle(ctx, tx.s.generic, m)
}

// SettlePayment is Settle for the payments table.
func (tx *Tx) SettlePayment(ctx context.Context, m effect.Settle) (effect.Settled, error) {
	return tx.settle(ctx, tx.s.payments, m)
}

// SettleRefund is Settle for the refunds table.
func (tx *Tx) SettleRefund(ctx context.Context, m effect.Settle) (effect.Settled, error) {
	return tx.settle(ctx, tx.s.refunds, m)
}

func (tx *Tx) settle(ctx context.Context, t *table, m effect.Settle) (effect.Settled, error) {
	if err := t.checkSettle(m); err != nil {
		return effect.Settled{}, err
	}
	if err := tx.open(ctx); err != nil {
		return effect.Settled{}, err
	}
	defer tx.mu.Unlock()
	if tx.settled[m.ID] {
		return effect.Settled{}, invalid("the guard was settled before in this transaction")
	}
	tx.settled[m.ID] = true
	repeat := m.Inbox != nil && !tx.once(*m.Inbox, m.Now)
	after, moved := tx.predict(t, m, repeat)
	noted := false
	if m.Note != nil && after != nil && !repeat {
		note := *m.Note
		noted = tx.newName(t, m.ID, note.Name)
		tx.ops = append(tx.ops, func(*Store) { t.keep(m.ID, note) })
	}
	if moved {
		m = copySettle(m)
		m.Inbox = nil // noted by once
		tx.entries = append(tx.entries, entries(m.Postings)...)
		tx.ops = append(tx.ops, func(s *Store) { s.settleFits(t, m) })
	}
	return effect.Settled{Moved: moved, Repeat: repeat, Noted: noted, Guard: after}, nil
}

// predict reads the guard, notes what was read for the commit to check, and
// returns the guard as it will be.
func (tx *Tx) predict(t *table, m effect.Settle, repeat bool) (after *effect.Guard, moved bool) {
	tx.s.mu.Lock()
	defer tx.s.mu.Unlock()
	g := t.rows[m.ID]
	if g == nil {
		tx.reads = append(tx.reads, func(*Store) bool { return t.rows[m.ID] == nil })
		return nil, false
	}
	read := g.revision
	tx.reads = append(tx.reads, func(*Store) bool { return t.rows[m.ID] == g && g.revision == read })
	shown := *g
	if moved = !repeat && moves(g, m); moved {
		move(&shown, m)
	}
	return t.out(&shown), moved
}

// newName reports whether the guard has no evidence of that name yet, and lets the
// commit check that this still holds.
func (tx *Tx) newName(t *table, id retryproof.ID, name string) bool {
	there := func() bool {
		return slices.ContainsFunc(t.evidence[id], func(e effect.Evidence) bool { return e.Name == name })
	}
	tx.s.mu.Lock()
	read := there()
	tx.s.mu.Unlock()
	tx.reads = append(tx.reads, func(*Store) bool { return there() == read })
	return !read
}

// copySettle keeps a settlement from changing with its caller's slices.
func copySettle(m effect.Settle) effect.Settle {
	m.From, m.Result = slices.Clone(m.From), slices.Clone(m.Result)
	m.Postings, m.Events = slices.Clone(m.Postings), slices.Clone(m.Events)
	for i := range m.Events {
		m.Events[i].Body = slices.Clone(m.Events[i].Body)
	}
	if m.Evidence != nil {
		e := *m.Evidence
		m.Evidence = &e
	}
	if m.Claim != nil {
		done := *m.Claim
		done.Answer = copyAnswer(done.Answer)
		m.Claim = &done
	}
	return m
}
