package sqlite

import (
	"context"
	"embed"
	"errors"

	"github.com/retryproof/retryproof/store/internal/record"
	"github.com/retryproof/retryproof/store/internal/schema"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Direction says what Migrate does.
type Direction = schema.Direction

// Migration is one numbered step of the schema.
type Migration = schema.Migration

// What Migrate can do.
const (
	// Status changes nothing.
	Status = schema.Status
	// Up applies every migration that is missing.
	Up = schema.Up
	// Down undoes the newest migration that is applied, with the data in it.
	Down = schema.Down
)

// Migrate opens the database, runs the direction in one transaction and returns
// every known migration as it is afterwards. Programs that start at the same time
// may all call it: the write lock lets one through.
func Migrate(ctx context.Context, config Config, d Direction) ([]Migration, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Store{config: config.withDefaults()}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(notDone(err), s.Close())
	}
	out, err := s.migrate(ctx, d)
	return out, errors.Join(err, s.Close())
}

func (s *Store) migrate(ctx context.Context, d Direction) ([]Migration, error) {
	known, err := schema.Load(migrationFiles)
	if err != nil {
		return nil, err
	}
	if d == Status {
		var out []Migration
		err := s.read(ctx, func(ctx context.Context, q query) (err error) {
			out, err = marked(ctx, q, known)
			return err
		})
		return out, err
	}
	var out []Migration
	err = s.write(ctx, func(ctx context.Context, q query) error {
		const table = "CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"
		if _, err := q.exec(ctx, table); err != nil {
			return err
		}
		before, err := marked(ctx, q, known)
		if err != nil {
			return err
		}
		plan, err := schema.Plan(before, d)
		if err != nil {
			return err
		}
		for _, m := range plan {
			if _, err := s.writer.conn.ExecContext(ctx, m.SQL(d)); err != nil {
				return err
			}
			if err := s.note(ctx, q, m, d); err != nil {
				return err
			}
		}
		out, err = marked(ctx, q, known)
		return err
	})
	return out, err
}

func (s *Store) note(ctx context.Context, q query, m Migration, d Direction) error {
	if d == Down {
		_, err := q.exec(ctx, "DELETE FROM schema_migrations WHERE version = ?", m.Version)
		return err
	}
	_, err := q.exec(ctx, "INSERT INTO schema_migrations (version, name, applied_at) VALUES (?, ?, ?)",
		m.Version, m.Name, record.Micros(s.config.Clock.Now()))
	return err
}

func (s *Store) requireSchema(ctx context.Context) error {
	found, err := s.migrate(ctx, Status)
	if err != nil {
		return err
	}
	return schema.Missing(found, "run: retryproof migrate --store sqlite:"+s.config.Path+" up")
}

// marked reads which migrations the database has.
func marked(ctx context.Context, q query, known []Migration) ([]Migration, error) {
	var tables int
	if err := q.row(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'").Scan(&tables); err != nil {
		return nil, err
	}
	if tables == 0 {
		return schema.Mark(known, nil)
	}
	rows, err := q.rows(ctx, "SELECT version FROM schema_migrations ORDER BY version")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var applied []schema.Applied
	for rows.Next() {
		var a schema.Applied // never compatible: programs of several versions do not share a file
		if err := rows.Scan(&a.Version); err != nil {
			return nil, err
		}
		applied = append(applied, a)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return schema.Mark(known, applied)
}
