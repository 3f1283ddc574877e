package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retryproof/retryproof/store/sqlite"
)

// rawTable takes the one-row commits that the rest is compared with: each one INSERT of
// one row, by the same driver into the same database, committed alone and shared with
// nobody.
type rawTable struct {
	insert operation
	close  func(ctx context.Context) error
}

const (
	createRaw = "CREATE TABLE retryproof_bench (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text NOT NULL)"
	dropRaw   = "DROP TABLE IF EXISTS retryproof_bench"
)

// openRaw opens the table beside a store. A store in memory has no commits, and no table.
func openRaw(ctx context.Context, kind, place string, clients int) (*rawTable, error) {
	switch kind {
	case "sqlite":
		return openRawSQLite(ctx, place)
	case "postgres":
		return openRawPostgres(ctx, place, clients)
	}
	return nil, nil
}

// openRawPostgres has a connection for each client.
func openRawPostgres(ctx context.Context, url string, clients int) (*rawTable, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, storeError(err)
	}
	config.MaxConns, config.MinConns = int32(clients), int32(clients) // clients is far below 2³¹
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, storeError(err)
	}
	for _, statement := range []string{dropRaw, createRaw} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			pool.Close()
			return nil, storeError(err)
		}
	}
	return &rawTable{
		insert: one(func(ctx context.Context, _, _ int) error {
			_, err := pool.Exec(ctx, "INSERT INTO retryproof_bench (v) VALUES ($1)", "x")
			return err
		}),
		close: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, dropRaw)
			pool.Close()
			return err
		},
	}, nil
}

// openRawSQLite has one connection, at which the clients take turns: SQLite has one writer
// at a time, and those on other connections would only sleep until the lock is free.
func openRawSQLite(ctx context.Context, path string) (*rawTable, error) {
	db, err := sql.Open("sqlite", sqlite.Config{Path: path}.DSN())
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	db.SetMaxOpenConns(1)
	for _, statement := range []string{dropRaw, "CREATE TABLE retryproof_bench (id INTEGER PRIMARY KEY, v TEXT NOT NULL) STRICT"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("--store: %w", err), db.Close())
		}
	}
	insert, err := db.PrepareContext(ctx, "INSERT INTO retryproof_bench (v) VALUES (?)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--store: %w", err), db.Close())
	}
	return &rawTable{
		insert: one(func(ctx context.Context, _, _ int) error {
			_, err := insert.ExecContext(ctx, "x")
			return err
		}),
		close: func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, dropRaw)
			return errors.Join(insert.Close(), err, db.Close())
		},
	}, nil
}
