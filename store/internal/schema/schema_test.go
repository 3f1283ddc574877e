package schema_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/store/internal/schema"
)

func load(t *testing.T) []schema.Migration {
	t.Helper()
	known, err := schema.Load(fstest.MapFS{
		"migrations/0001_first.up.sql":    {Data: []byte("CREATE TABLE a ();")},
		"migrations/0001_first.down.sql":  {Data: []byte("DROP TABLE a;")},
		"migrations/0002_second.up.sql":   {Data: []byte("-- compatible: a column that old programs leave alone\nALTER TABLE a ADD b int;")},
		"migrations/0002_second.down.sql": {Data: []byte("ALTER TABLE a DROP b;")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func TestTheFirstLineSaysWhetherOldProgramsMayRun(t *testing.T) {
	t.Parallel()
	known := load(t)
	if known[0].Compatible || !known[1].Compatible {
		t.Errorf("got compatible %v and %v, want false and true", known[0].Compatible, known[1].Compatible)
	}
}

func TestAnUnknownMigrationIsRefusedUnlessItIsCompatible(t *testing.T) {
	t.Parallel()
	known := load(t)
	all := []schema.Applied{{Version: 1}, {Version: 2}}
	if _, err := schema.Mark(known, append(all, schema.Applied{Version: 3})); retryproof.CodeOf(err) != retryproof.CodePermanent || !strings.Contains(err.Error(), "3") {
		t.Errorf("got error %v, want CodePermanent and the number", err)
	}
	marked, err := schema.Mark(known, append(all, schema.Applied{Version: 3, Name: "third", Compatible: true}))
	if err != nil || len(marked) != 3 || marked[2].Name != "third" || !marked[2].Applied {
		t.Fatalf("got %+v and error %v, want the third among them", marked, err)
	}
	if plan, err := schema.Plan(marked, schema.Up); err != nil || len(plan) != 0 {
		t.Errorf("up: got %+v and error %v, want nothing", plan, err)
	}
	if _, err := schema.Plan(marked, schema.Down); retryproof.CodeOf(err) != retryproof.CodePermanent {
		t.Errorf("down: got error %v, want CodePermanent", err)
	}
}
