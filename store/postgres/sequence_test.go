package postgres_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/store/postgres"
)

// forgetPlaces leaves rows and their numbers and puts the sequence back, as a logical
// replica or a copy of the data alone does.
const forgetPlaces = "SELECT setval('outbox_seq_seq', (SELECT min(seq) FROM outbox), false)"

func applying(id string) inbox.Apply {
	return inbox.Apply{Key: retryproof.InboxKey{Consumer: "c", Source: "s", EventID: "of-" + id}, Now: noon, Events: []retryproof.Event{newEvent(id)}}
}

// case 30: a sequence that is behind its rows loses no event and no order.
func TestAnEventWhoseNumberIsTakenIsKept(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(t *testing.T, s *postgres.Store){ // order: parallel
		"inbox": func(t *testing.T, s *postgres.Store) {
			if first, err := s.Inbox().Apply(t.Context(), applying("new")); err != nil || !first {
				t.Errorf("got first %v and error %v, want true and none", first, err)
			}
		},
		"settle": func(t *testing.T, s *postgres.Store) {
			set := settling("K1")
			set.Events = []retryproof.Event{newEvent("new")}
			if out, err := s.Effects().Settle(t.Context(), set); err != nil || !out.Moved {
				t.Errorf("got %+v and error %v, want it moved", out, err)
			}
		},
		"within": func(t *testing.T, s *postgres.Store) {
			tx, err := s.Pool().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"e1", "new"} { // one that is there, and one whose number is
				if err := postgres.Within(tx).Publish(t.Context(), newEvent(id)); err != nil {
					t.Errorf("got error %v, want none", err)
				}
			}
			if err := tx.Commit(t.Context()); err != nil { // case 16
				t.Errorf("commit: got error %v, want none", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := database(t)
			s := open(t, postgres.Config{URL: place})
			if _, err := s.Effects().Begin(t.Context(), beginning("K1", "a")); err != nil {
				t.Fatal(err)
			}
			publish(t, s, "e1", "e2", "e3")
			run(t, place, forgetPlaces)
			store(t, s)
			if got, want := relay(t, s, 10), "e1 e2 e3 new"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// case 31: a number that is free again would let an event overtake its group.
// Whoever finds another moving the sequence leaves it alone, and loses nothing.
func TestOneAtATimeMovesTheSequence(t *testing.T) {
	t.Parallel()
	place := database(t)
	s := open(t, postgres.Config{URL: place, MaxConns: 1})
	publish(t, s, "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9") // more than are tried
	other, err := pgx.Connect(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	if _, err := other.Exec(t.Context(), "BEGIN; SELECT pg_advisory_xact_lock(8243122727984067175)"); err != nil {
		t.Fatal(err)
	}
	run(t, place, forgetPlaces)
	if first, err := s.Inbox().Apply(t.Context(), applying("new")); first || retryproof.OutcomeOf(err) != retryproof.NotDone {
		t.Errorf("while another moves it: got first %v and error %v, want it not done", first, err)
	}
	if _, err := other.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if first, err := s.Inbox().Apply(t.Context(), applying("new")); err != nil || !first {
		t.Errorf("afterwards: got first %v and error %v, want true and none", first, err)
	}
	if got, want := relay(t, s, 20), "e1 e2 e3 e4 e5 e6 e7 e8 e9 new"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestANewConnectionPutsEventsBehindThoseThatWait(t *testing.T) {
	t.Parallel()
	place := database(t)
	before := open(t, postgres.Config{URL: place})
	publish(t, before, "e1", "e2", "e3")
	run(t, place, forgetPlaces)
	if got := relay(t, before, 1); got != "e1" {
		t.Fatalf("got %q, want e1", got)
	}
	after := open(t, postgres.Config{URL: place})
	publish(t, after, "e4")
	if got, want := relay(t, after, 10), "e2 e3 e4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestARoleThatMayNotMoveTheSequenceIsToldWhatToRun(t *testing.T) {
	t.Parallel()
	place := scratch(t, "seqrole")
	owner := open(t, postgres.Config{URL: place, Migrate: true})
	publish(t, owner, "e1", "e2", "e3", "e4", "e5", "e6")
	role, limited := roleOf(t, place, "seqrole")
	run(t, place, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+role)
	run(t, place, forgetPlaces)
	s := open(t, postgres.Config{URL: limited})
	first, err := s.Inbox().Apply(t.Context(), applying("new"))
	wantRefusal(t, "a number that is taken", err, retryproof.CodeUnavailable)
	if first || err == nil || !strings.Contains(err.Error(), "setval") {
		t.Errorf("got first %v and error %v, want one that names setval", first, err)
	}
	run(t, place, "SELECT setval(pg_get_serial_sequence('outbox', 'seq'), (SELECT max(seq) FROM outbox))")
	if first, err := s.Inbox().Apply(t.Context(), applying("new")); err != nil || !first {
		t.Errorf("afterwards: got first %v and error %v, want true and none", first, err)
	}
}

// roleOf creates a role without rights that ends with the test's database, and returns
// its name and the database's URL for it.
func roleOf(t *testing.T, place, suffix string) (role, limited string) {
	t.Helper()
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	role = strings.TrimPrefix(u.Path, "/") + "_" + suffix
	run(t, place, "CREATE ROLE "+role+" LOGIN PASSWORD 'x'")
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), place)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(role, "x")
	return role, u.String()
}
