package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/retryproof/retryproof/store/postgres"
	"github.com/retryproof/retryproof/store/sqlite"
)

// migrateCommand changes the tables of a store.
type migrateCommand struct {
	Store  string `help:"postgres://… or sqlite:PATH." required:"" placeholder:"URL"`
	Action string `arg:"" enum:"up,down,status" help:"up applies what is missing, down undoes the newest one with its data, status only shows."`
}

// Run migrates and prints one line per migration.
func (c *migrateCommand) Run(ctx context.Context, out output) error {
	switch {
	case strings.HasPrefix(c.Store, "postgres://") || strings.HasPrefix(c.Store, "postgresql://"):
		direction := map[string]postgres.Direction{"up": postgres.Up, "down": postgres.Down, "status": postgres.Status}[c.Action]
		list, err := postgres.Migrate(ctx, postgres.Config{URL: c.Store}, direction)
		for _, m := range list {
			printMigration(out.stdout, m.Version, m.Name, m.Applied)
		}
		if err != nil {
			err = storeError(err)
		}
		return err
	case strings.HasPrefix(c.Store, "sqlite:"):
		if path := strings.TrimPrefix(strings.TrimPrefix(c.Store, "sqlite:"), "//"); c.Action != "up" || path == "" {
			if err := checkSQLiteFile(c.Store); err != nil { // only up makes a database
				return err
			}
		}
		direction := map[string]sqlite.Direction{"up": sqlite.Up, "down": sqlite.Down, "status": sqlite.Status}[c.Action]
		list, err := sqlite.Migrate(ctx, sqlite.Config{Path: c.Store}, direction)
		for _, m := range list {
			printMigration(out.stdout, m.Version, m.Name, m.Applied)
		}
		return err
	}
	return misuse{fmt.Errorf("--store %q: migrate takes postgres://… or sqlite:PATH", redacted(c.Store))}
}

func printMigration(w io.Writer, version int, name string, applied bool) {
	state := "missing"
	if applied {
		state = "applied"
	}
	fmt.Fprintf(w, "%04d  %-8s %s\n", version, state, name)
}
