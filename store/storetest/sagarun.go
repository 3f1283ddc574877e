package storetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock/clocktest"
	"github.com/retryproof/retryproof/saga"
)

// sagaRunners lets four runners share some sagas, of which every third is refused
// at its end. Each runner's calls fail in turn.
func sagaRunners(w *world) {
	const sagas, runners = 9, 4
	var mu sync.Mutex
	stands, calls := map[string]int{}, 0
	call := func(_ context.Context, c saga.Call) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		stands[c.Key] = 1
		if calls%3 == 0 {
			return nil, &retryproof.Error{Message: "no answer"}
		}
		return nil, nil
	}
	d := saga.Definition{Name: "order", Steps: []saga.Step{
		{Name: "seat", Action: call, Cancel: call},
		{Name: "charge", Action: call, Cancel: call, CancelName: "refund"},
		{Name: "ticket", Action: func(_ context.Context, c saga.Call) ([]byte, error) {
			if c.Input[len(c.Input)-1]%3 == 0 {
				return nil, retryproof.Refused(retryproof.CodePermanent, "no ticket", nil)
			}
			return nil, nil
		}},
	}}
	for i := range sagas {
		w.startSaga(fmt.Sprintf("o_%d", i), 1)
	}
	now := clocktest.New(at(2))
	all := w.instances()
	together(w, runners, func(ctx context.Context, i int) (bool, error) {
		r, err := saga.New(all[i%len(all)].Sagas, saga.Config{Clock: now}, d)
		for range 200 {
			if err != nil || w.listSagas(saga.Query{Limit: 1}) == "" {
				return true, err
			}
			var n int
			n, err = r.RunOnce(ctx)
			if retryproof.OutcomeOf(err) == retryproof.NotDone || retryproof.CodeOf(err) == retryproof.CodeUnknown {
				err = nil // a lock was held, here or in what was recorded: its lease ends
			}
			if n == 0 {
				now.Advance(10e9)
			}
		}
		return false, err
	})
	for i := range sagas {
		id, undone := fmt.Sprintf("o_%d", i), i%3 == 0
		want := saga.Completed
		if undone {
			want = saga.Compensated
		}
		check(w, "the state of "+id, w.readSaga(id).State, want)
		mu.Lock()
		check(w, "the charge of "+id, stands[id+":charge"], 1)
		check(w, "the refund of "+id, stands[id+":cancel:refund"] == 1, undone)
		mu.Unlock()
	}
}
