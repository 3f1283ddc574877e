package postgres_test

import (
	"errors"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/locator"
	"github.com/retryproof/retryproof/store/postgres"
	"github.com/retryproof/retryproof/version"
)

func TestVersionCommitsOrRollsBackWithTheCallersRows(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *postgres.Store, begin func() transaction) {
		like := version.Write{Line: version.Line{Stream: "likes", Caller: "u1", Device: "D1"}, Subject: "post_7", Version: 41,
			Action: "act_41", Value: []byte("liked"), Now: noon}
		unlike := like
		unlike.Version, unlike.Action, unlike.Value = 42, "act_42", []byte("unliked")
		for turn, step := range []struct {
			write  version.Write
			commit bool
			want   version.Verdict
			stands string
		}{
			{unlike, false, version.Applied, ""}, {like, true, version.Applied, "liked"}, {unlike, true, version.Applied, "unliked"},
			{like, true, version.Stale, "unliked"}, {unlike, true, version.Repeat, "unliked"},
		} {
			tx := begin()
			got, err := tx.within().ApplyVersion(t.Context(), step.write)
			if err != nil || got.Verdict != step.want {
				t.Errorf("turn %d: got %v and error %v, want %v", turn, got.Verdict, err, step.want)
			}
			if err := errors.Join(tx.exec("INSERT INTO audit VALUES ('seen')"), tx.end(step.commit)); err != nil {
				t.Fatal(err)
			}
			m, err := s.Versions().Look(t.Context(), like.Line, "post_7")
			if stands := m != nil; err != nil || stands != (step.stands != "") || stands && string(m.Value) != step.stands {
				t.Errorf("turn %d: got %+v and error %v, want %q", turn, m, err, step.stands)
			}
		}
		if got := count(t, s, "audit"); got != 4 {
			t.Errorf("got %d audit rows, want 4", got)
		}
		_, err := postgres.WithinSQL(nil).ApplyVersion(t.Context(), like)
		if retryproof.CodeOf(err) != retryproof.CodeInvalid {
			t.Errorf("without a transaction: got error %v, want CodeInvalid", err)
		}
	})
}

func TestLocatorCommitsOrRollsBackWithTheCallersRows(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *postgres.Store, begin func() transaction) {
		name := locator.Name{Kind: "mail", Owner: "u1", ID: "m9"}
		put := func(tx postgres.Tx) (locator.Result, error) {
			return tx.PutItem(t.Context(), locator.Put{Name: name, Place: "Inbox", Value: []byte("blob 9"), Now: noon})
		}
		move := func(tx postgres.Tx) (locator.Result, error) {
			return tx.MoveItem(t.Context(), locator.Move{Name: name, From: "Inbox", To: "Archive", Now: noon})
		}
		remove := func(tx postgres.Tx) (locator.Result, error) {
			return tx.DeleteItem(t.Context(), locator.Delete{Name: name, Now: noon})
		}
		for turn, step := range []struct {
			do     func(postgres.Tx) (locator.Result, error)
			commit bool
			want   locator.Verdict
		}{
			{put, false, locator.Created}, {move, true, locator.Absent}, {put, true, locator.Created}, {put, true, locator.Exists},
			{move, true, locator.Moved}, {put, true, locator.Exists}, {remove, true, locator.Deleted}, {put, true, locator.Gone},
		} {
			tx := begin()
			got, err := step.do(tx.within())
			if err != nil || got.Verdict != step.want {
				t.Errorf("turn %d: got %v and error %v, want %v", turn, got.Verdict, err, step.want)
			}
			if err := errors.Join(tx.exec("INSERT INTO audit VALUES ('seen')"), tx.end(step.commit)); err != nil {
				t.Fatal(err)
			}
		}
		if got := count(t, s, "audit"); got != 7 {
			t.Errorf("got %d audit rows, want 7", got)
		}
		_, err := put(postgres.Within(nil))
		if retryproof.CodeOf(err) != retryproof.CodeInvalid {
			t.Errorf("without a transaction: got error %v, want CodeInvalid", err)
		}
	})
}
