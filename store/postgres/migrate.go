package postgres

import (
	"context"
	"embed"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// migrationLock is the key of the advisory lock that lets one migration run at a time.
// It ends with its transaction, also behind a pooler.
const migrationLock int64 = 0x7265747279707266

// Migrate connects, runs the direction in one transaction and returns every known
// migration as it is afterwards. Programs that start at the same time may all call it.
func Migrate(ctx context.Context, config Config, d Direction) ([]Migration, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	pool, config, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	s := &Store{pool: pool, config: config}
	if err := s.checkServer(ctx); err != nil {
		return nil, err
	}
	return s.migrate(ctx, d)
}

func (s *Store) migrate(ctx context.Context, d Direction) (out []Migration, err error) {
	known, err := schema.Load(migrationFiles)
	if err != nil {
		return nil, err
	}
	locked := *s
	locked.config.Isolation, locked.config.LockTimeout = "read committed", 0 // each statement sees what the last migrator did
	err = locked.inTx(ctx, func(ctx context.Context, q query) error {
		conn := q.(overPgx).on.(*pgxpool.Conn)
		if d == Status {
			out, err = marked(ctx, conn, known)
			return err
		}
		if _, err := q.exec(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
			return err
		}
		const table = "CREATE TABLE IF NOT EXISTS schema_migrations (version bigint PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL)"
		if _, err := q.exec(ctx, table); err != nil {
			return err
		}
		before, err := marked(ctx, conn, known)
		if err != nil {
			return err
		}
		for _, m := range schema.Plan(before, d) {
			if _, err := q.exec(ctx, m.SQL(d)); err != nil {
				return err
			}
			if err := s.note(ctx, q, m, d); err != nil {
				return err
			}
		}
		out, err = marked(ctx, conn, known)
		return err
	})
	return orNothing(out, err)
}

func (s *Store) note(ctx context.Context, q query, m Migration, d Direction) error {
	if d == Down {
		_, err := q.exec(ctx, "DELETE FROM schema_migrations WHERE version = $1", m.Version)
		return err
	}
	_, err := q.exec(ctx, "INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)",
		m.Version, m.Name, record.Micros(s.config.Clock.Now()))
	return err
}

func (s *Store) requireSchema(ctx context.Context) error {
	found, err := s.migrate(ctx, Status)
	if err != nil {
		return err
	}
	return schema.Missing(found, "run: retryproof migrate --store URL up")
}

// marked reads which migrations the database has.
func marked(ctx context.Context, q *pgxpool.Conn, known []Migration) ([]Migration, error) {
	var there bool
	if err := q.QueryRow(ctx, "SELECT to_regclass('schema_migrations') IS NOT NULL").Scan(&there); err != nil {
		return nil, err
	}
	if !there {
		return schema.Mark(known, nil)
	}
	rows, err := q.Query(ctx, "SELECT version FROM schema_migrations ORDER BY version")
	if err != nil {
		return nil, err
	}
	applied, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, err
	}
	return schema.Mark(known, applied)
}
