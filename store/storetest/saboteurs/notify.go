package saboteurs

import (
	"context"
	"slices"
	"time"

	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/storetest"
)

// notifyFaults are wrong in the store of intents.
func notifyFaults() []Saboteur {
	plant := func(id, what, caught string, with func(notify.Store) notify.Store) Saboteur {
		return Saboteur{id, what, caught, func(s storetest.Stores) storetest.Stores {
			s.Payments.Notify = with(s.Payments.Notify)
			return s
		}}
	}
	return []Saboteur{
		plant("mark-sent-always", "MarkSent says true to everybody", "MarkSentHappensOnce", func(s notify.Store) notify.Store { return marksAlways{s} }),
		plant("intent-claimed-early", "an intent is due a microsecond before its time", "ClaimJudgesTheTriedAndTheUntriedApart", func(s notify.Store) notify.Store { return claimsEarly{s} }),
		plant("intent-claimed-late", "an intent is not due at exactly its time", "ClaimJudgesTheTriedAndTheUntriedApart", func(s notify.Store) notify.Store { return claimsLate{s} }),
		plant("intent-claimed-young", "one that nobody has tried is due at once", "ClaimJudgesTheTriedAndTheUntriedApart", func(s notify.Store) notify.Store { return claimsYoung{s} }),
		plant("intents-without-order", "Claim gives the newest first", "ClaimTakesTheLongestDueFirstAndNoMore", func(s notify.Store) notify.Store { return claimsReversed{s} }),
		plant("intents-without-lease", "a claimed intent is due for everybody", "ClaimTakesTheLongestDueFirstAndNoMore", func(s notify.Store) notify.Store { return claimsFreely{s} }),
		plant("intents-of-any-channel", "Claim is of all channels", "ClaimIsOfOneChannel", func(s notify.Store) notify.Store { return claimsAll{s} }),
		plant("stale-failure", "a failure of an earlier try is recorded", "FailureOfAnotherTryChangesNothing", func(s notify.Store) notify.Store { return failsStale{s} }),
		plant("failure-loses-its-time", "a failed intent is due at once", "FailureMovesTheNextTry", func(s notify.Store) notify.Store { return failsAtOnce{s} }),
		plant("refusal-is-a-delay", "a refused intent is tried again", "RefusedIntentIsOver", func(s notify.Store) notify.Store { return neverRefuses{s} }),
	}
}

type marksAlways struct{ notify.Store }

func (m marksAlways) MarkSent(ctx context.Context, k notify.Key, now time.Time) (bool, error) {
	_, err := m.Store.MarkSent(ctx, k, now)
	return err == nil, err
}

type claimsEarly struct{ notify.Store }

func (s claimsEarly) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	c.Now = c.Now.Add(clock.Precision)
	return s.Store.Claim(ctx, c)
}

type claimsLate struct{ notify.Store }

func (s claimsLate) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	c.Now, c.Untried = c.Now.Add(-clock.Precision), c.Untried.Add(-clock.Precision)
	return s.Store.Claim(ctx, c)
}

type claimsYoung struct{ notify.Store }

func (s claimsYoung) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	c.Untried = c.Now
	return s.Store.Claim(ctx, c)
}

type claimsReversed struct{ notify.Store }

func (s claimsReversed) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	got, err := s.Store.Claim(ctx, c)
	slices.Reverse(got)
	return got, err
}

type claimsFreely struct{ notify.Store }

func (s claimsFreely) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	c.Until = c.Now
	return s.Store.Claim(ctx, c)
}

type claimsAll struct{ notify.Store }

func (s claimsAll) Claim(ctx context.Context, c notify.Claim) ([]notify.Intent, error) {
	got, err := s.Store.Claim(ctx, c)
	if err != nil {
		return nil, err
	}
	c.Channel, c.Limit = "mail", c.Limit-len(got)
	more, err := s.Store.Claim(ctx, c)
	return append(got, more...), err
}

type failsStale struct{ notify.Store }

func (s failsStale) Fail(ctx context.Context, f notify.Failure) (bool, error) {
	i, err := s.Intent(ctx, f.Key)
	if i == nil || err != nil {
		return false, err
	}
	f.Tried = i.Sends
	return s.Store.Fail(ctx, f)
}

type failsAtOnce struct{ notify.Store }

func (s failsAtOnce) Fail(ctx context.Context, f notify.Failure) (bool, error) {
	f.NextAt = f.NextAt.Add(-time.Hour)
	return s.Store.Fail(ctx, f)
}

type neverRefuses struct{ notify.Store }

func (s neverRefuses) Fail(ctx context.Context, f notify.Failure) (bool, error) {
	f.Refused = false
	return s.Store.Fail(ctx, f)
}
