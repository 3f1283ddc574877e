package memory

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/outbox"
)

// modelRow and model say what a claim is in the plainest way: look at every row.
type modelRow struct {
	id, group, relay string
	seq              int
	until, next      time.Time
	parked           bool
	attempts         int
}

type model struct {
	rows []*modelRow
	seq  int
}

func (m *model) claim(c outbox.Claim) []string {
	slices.SortFunc(m.rows, func(a, b *modelRow) int { return cmp.Compare(a.seq, b.seq) })
	blocked := map[string]bool{}
	out := []string{}
	for _, r := range m.rows {
		if r.parked || blocked[r.group] || len(out) >= c.Limit {
			continue
		}
		if r.relay != "" && !r.until.Before(c.Now) || r.next.After(c.Now) {
			blocked[r.group] = true
			continue
		}
		r.relay, r.until = c.Relay, c.Until
		r.attempts++
		out = append(out, fmt.Sprintf("%s/%d", r.id, r.attempts))
	}
	return out
}

func (m *model) leased(relay, id string) *modelRow {
	for _, r := range m.rows {
		if r.id == id && r.relay == relay && !r.parked {
			return r
		}
	}
	return nil
}

// One random operation on both; the results must agree. Times jump back and
// forth, as they do between processes.
func TestOutboxAgreesWithItsPlainModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 31))
		s, m := New(), &model{}
		base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for step := range 1500 {
			now := base.Add(time.Duration(step+random.IntN(20)) * time.Millisecond)
			if got, want := oneStep(t, random, s, m, now); got != want {
				t.Fatalf("seed %d, step %d: got %s, want %s", seed, step, got, want)
			}
		}
	}
}

func oneStep(t *testing.T, random *rand.Rand, s *Store, m *model, now time.Time) (got, want string) {
	t.Helper()
	box, ctx := s.Outbox(), t.Context()
	relay := fmt.Sprintf("r%d", random.IntN(3))
	id := fmt.Sprintf("e%d", max(0, m.seq-random.IntN(40)))
	later := now.Add(time.Duration(random.IntN(30)) * time.Millisecond)
	var ok, wantOK bool
	var err error
	held := m.leased(relay, id)
	switch random.IntN(8) {
	case 0, 1:
		m.seq++
		r := &modelRow{id: fmt.Sprintf("e%d", m.seq), group: fmt.Sprintf("g%d", random.IntN(5)), seq: m.seq}
		m.rows = append(m.rows, r)
		err = s.Within(func(tx *Tx) error {
			return tx.Publish(ctx, retryproof.Event{ID: r.id, Group: r.group, At: now})
		})
	case 2, 3:
		c := outbox.Claim{Relay: relay, Now: now, Until: later, Limit: random.IntN(6)}
		var rows []outbox.Row
		rows, err = box.Claim(ctx, c)
		ids := []string{}
		for _, r := range rows {
			ids = append(ids, fmt.Sprintf("%s/%d", r.ID, r.Attempts))
		}
		return fmt.Sprint(ids, err), fmt.Sprint(m.claim(c), nil)
	case 4, 5:
		var deleted []string
		deleted, err = box.Delete(ctx, relay, []string{id})
		ok = len(deleted) == 1
		wantOK = held != nil
		m.rows = slices.DeleteFunc(m.rows, func(r *modelRow) bool { return r == held })
	case 6:
		ok, err = box.Defer(ctx, outbox.Defer{Relay: relay, EventID: id, NextAt: later})
		if wantOK = held != nil; wantOK {
			held.relay, held.until, held.next = "", time.Time{}, later
		}
	case 7:
		if random.IntN(2) == 0 {
			ok, err = box.Park(ctx, outbox.Park{Relay: relay, EventID: id, Now: now})
			if wantOK = held != nil; wantOK {
				held.relay, held.until, held.next, held.parked = "", time.Time{}, time.Time{}, true
			}
			break
		}
		ok, err = box.Redrive(ctx, outbox.Redrive{EventID: id, Now: now})
		for _, r := range m.rows {
			if r.id == id && r.parked {
				wantOK, r.parked, r.attempts = true, false, 0
			}
		}
	}
	st, statsErr := box.Stats(ctx)
	parked := 0
	for _, r := range m.rows {
		if r.parked {
			parked++
		}
	}
	return fmt.Sprint(ok, err, statsErr, st.Waiting, st.Parked), fmt.Sprint(wantOK, nil, nil, len(m.rows)-parked, parked)
}
