package saga

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/entropy"
	"github.com/retryproof/retryproof/internal/clip"
)

// maxKeyBytes is the longest key that a call may carry: Stripe's limit for an
// idempotency key (docs.stripe.com/api/idempotent_requests).
const maxKeyBytes = 255

// Runner advances sagas. Safe for concurrent use; several runners may share a store.
type Runner struct {
	store       Store
	config      Config
	definitions map[string]Definition
	names       []string
}

// New returns a runner for some kinds of saga. It refuses definitions that are not
// valid or share a name, and says all that is wrong at once. Every process that
// shares the store may know other kinds: a runner leases only its own.
func New(store Store, config Config, definitions ...Definition) (*Runner, error) {
	errs := []error{config.Validate()}
	r := &Runner{store: store, config: config.withDefaults(), definitions: map[string]Definition{}}
	for _, d := range definitions {
		errs = append(errs, d.Validate())
		if _, there := r.definitions[d.Name]; there {
			errs = append(errs, fmt.Errorf("saga: two definitions have the name %q", d.Name))
		}
		d.Steps = append([]Step(nil), d.Steps...)
		r.definitions[d.Name] = d
		r.names = append(r.names, d.Name)
	}
	if len(definitions) == 0 {
		errs = append(errs, errors.New("saga: a runner needs a definition"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// Start records a saga; a runner does the rest. A repeat with the same id, name and
// meaning returns what is there, so that whoever lost the answer asks again; one
// with another meaning is refused with CodeKeyReused and changes nothing.
// s.Fingerprint defaults to a hash of the input's bytes: give the fields that
// matter when two inputs can mean the same. s.Now defaults to now.
//
// An id with a ':' is refused (NotDone, CodeInvalid): the step "refund" of a saga
// "pay_7:cancel" would have the key of the compensation "refund" of "pay_7".
func (r *Runner) Start(ctx context.Context, s Start) (Record, error) {
	d, known := r.definitions[s.Name]
	if !known {
		return Record{}, invalid(fmt.Sprintf("the runner has no definition %q", s.Name))
	}
	if s.Fingerprint == "" {
		s.Fingerprint = retryproof.FingerprintOf(retryproof.Text("input", string(s.Input)))
	}
	if s.Now.IsZero() {
		s.Now = r.config.Clock.Now()
	}
	if err := s.Check(); err != nil {
		return Record{}, err
	}
	if strings.Contains(string(s.ID), ":") {
		return Record{}, invalid("a saga's id has no ':', which divides the parts of a key")
	}
	for _, step := range d.Steps {
		if len(step.ActionKey(s.ID)) > maxKeyBytes || step.Cancel != nil && len(step.CancelKey(s.ID)) > maxKeyBytes {
			return Record{}, invalid(fmt.Sprintf("the id is so long that the key of step %q has more than %d bytes", step.Name, maxKeyBytes))
		}
	}
	var rec Record
	_, err := r.retry(ctx, func() (err error) {
		rec, err = r.store.Start(ctx, s)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	if rec.Name != s.Name || !rec.Fingerprint.Same(s.Fingerprint) {
		return Record{}, retryproof.Refused(retryproof.CodeKeyReused, "the saga's id was used for something else", nil)
	}
	return rec, nil
}

// Read reads a saga. Readers that act on what its steps wrote ask State.Final first.
func (r *Runner) Read(ctx context.Context, id retryproof.ID) (*Record, error) {
	return r.store.Read(ctx, id)
}

// RunOnce advances up to Config.Batch sagas, each as far as it goes. It returns how
// many of them got on: a call with a definite answer, or another state.
func (r *Runner) RunOnce(ctx context.Context) (int, error) {
	moved := 0
	for n := 0; n < r.config.Batch && ctx.Err() == nil; n++ {
		rec, err := r.lease(ctx, "")
		if err != nil || rec == nil {
			return moved, err
		}
		_, got, err := r.advance(ctx, *rec)
		if got {
			moved++
		}
		if err != nil { // the store's: other sagas would fare alike
			return moved, err
		}
	}
	return moved, nil
}

// Advance drives one saga as far as it goes now, for a caller that waits: for
// example after Start. It returns the record as it is then, even when another
// runner has the saga or it must wait; ask its State.
func (r *Runner) Advance(ctx context.Context, id retryproof.ID) (Record, error) {
	rec, err := r.lease(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if rec == nil {
		return r.found(ctx, id)
	}
	after, _, err := r.advance(ctx, *rec)
	if err == nil && after.Owner != "" { // overtaken
		return r.found(ctx, id)
	}
	return after, err
}

// Cancel turns a running saga, for a person or a deadline. It is refused while
// another runner has the saga, and while a step that has no compensation is in
// doubt (NotDone, CodeInProgress: ask again); a COMPLETED one is refused for good
// (CodePermanent). One that has turned already is returned as it is.
func (r *Runner) Cancel(ctx context.Context, id retryproof.ID, reason string) (Record, error) {
	leased, err := r.lease(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if leased == nil {
		rec, err := r.found(ctx, id)
		switch {
		case err != nil || rec.State == Compensating || rec.State == Compensated:
			return rec, err
		case rec.State == Completed:
			return rec, retryproof.Refused(retryproof.CodePermanent, "the saga is COMPLETED", nil)
		}
		return rec, inProgress("another runner has the saga")
	}
	rec := *leased
	next := rec
	var refusal error
	if rec.State == Running {
		if step := inDoubt(r.definitions[rec.Name], rec); step != "" {
			refusal = inProgress("step " + step + " is in doubt and has no compensation")
		} else {
			next.State, next.Reason, next.NextAt = Compensating, clip.Text(reason, clip.Reason), r.config.Clock.Now()
		}
	}
	next.Until = time.Time{}
	after, held, err := r.save(ctx, rec, next)
	if err != nil || refusal != nil {
		return after, errors.Join(err, refusal)
	}
	if !held {
		return rec, inProgress("another runner has the saga")
	}
	if rec.State == Running {
		r.saw(SawTurned, after, Entry{})
	}
	return after, nil
}

func inProgress(message string) error {
	return &retryproof.Error{Outcome: retryproof.NotDone, Code: retryproof.CodeInProgress, Message: message, RetryAfter: time.Second}
}

func (r *Runner) found(ctx context.Context, id retryproof.ID) (Record, error) {
	rec, err := r.store.Read(ctx, id)
	if err != nil {
		return Record{}, err
	}
	if rec == nil {
		return Record{}, retryproof.Refused(retryproof.CodeNotFound, "there is no such saga", nil)
	}
	return *rec, nil
}

// lease takes a saga with a token of its own, so that two leases never look alike.
// When its answer is lost nothing runs: the lease goes stale.
func (r *Runner) lease(ctx context.Context, id retryproof.ID) (*Record, error) {
	now := r.config.Clock.Now()
	l := Lease{Names: r.names, ID: id, Owner: "saga-" + entropy.Token(r.config.Rand), Now: now, Until: now.Add(r.config.Lease), Margin: r.config.Margin}
	ctx, cancel := r.config.Clock.WithTimeout(ctx, r.config.WriteTimeout)
	defer cancel()
	return r.store.Lease(ctx, l)
}

// save writes next over rec, with a read-back: after a lost COMMIT answer it is
// asked again, and SavedBy tells whether the first one landed. held is false when
// another owner has the saga; then nothing was written and nothing else may run.
func (r *Runner) save(ctx context.Context, rec, next Record) (after Record, held bool, err error) {
	ctx, cancel := r.config.Clock.WithTimeout(context.WithoutCancel(ctx), r.config.WriteTimeout)
	defer cancel()
	next.NextAt, next.Until = next.NextAt.Truncate(clock.Precision), next.Until.Truncate(clock.Precision)
	s := Save{ID: rec.ID, Owner: rec.Owner, Version: rec.Version, Now: r.config.Clock.Now(),
		State: next.State, Log: next.Log, Reason: next.Reason, NextAt: next.NextAt, Until: next.Until}
	var moved bool
	lost, err := r.retry(ctx, func() (err error) {
		moved, err = r.store.Save(ctx, s)
		return err
	})
	if err == nil && !moved && lost {
		moved, err = r.landed(ctx, s)
	}
	if err != nil {
		return rec, false, &retryproof.Error{Code: retryproof.CodeUnknown, RetryAfter: time.Second,
			Message: "a saga's progress could not be recorded", Hint: "its lease ends, and a runner goes on from its log", Err: err}
	}
	if !moved {
		r.saw(SawFenced, rec, Entry{})
		return rec, false, nil
	}
	next.Version, next.SavedBy, next.UpdatedAt = rec.Version+1, rec.Owner, s.Now
	if !s.Keeps() {
		next.Owner, next.Until = "", time.Time{}
	}
	return next, true, nil
}

// landed reads back whether a Save with a lost answer was the last write.
func (r *Runner) landed(ctx context.Context, s Save) (bool, error) {
	var found *Record
	_, err := r.retry(ctx, func() (err error) {
		found, err = r.store.Read(ctx, s.ID)
		return err
	})
	if err != nil || found == nil || found.Version != s.Version+1 || found.SavedBy != s.Owner {
		return false, err
	}
	r.config.Observe(Observation{What: SawReadBack, ID: string(s.ID)})
	return true, nil
}

// retry asks again after conflicts and lost answers, and reports whether one was lost.
func (r *Runner) retry(ctx context.Context, ask func() error) (lost bool, err error) {
	for try := range r.config.Retries + 1 {
		if try > 0 {
			wait := time.Millisecond + time.Duration(entropy.Fraction(r.config.Rand)*float64(2*time.Millisecond<<min(try, 6)))
			if r.config.Clock.Sleep(ctx, wait) != nil {
				return lost, err
			}
		}
		if err = ask(); err == nil {
			return lost, nil
		}
		switch {
		case retryproof.OutcomeOf(err) == retryproof.Unknown:
			lost = true
			r.config.Observe(Observation{What: SawLostCommit})
		case retryproof.CodeOf(err) != retryproof.CodeConflict:
			return lost, err
		}
	}
	return lost, err
}

func (r *Runner) saw(what string, rec Record, e Entry) {
	r.config.Observe(Observation{What: what, ID: string(rec.ID), Saga: rec.Name, Step: e.Step, Cancel: e.Cancel})
}
