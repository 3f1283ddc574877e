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
	// A look first: with nothing to do, a role needs no right to create anything. It has
	// a transaction of its own: a server learns what others have created when it locks a
	// table, and one that a transaction has looked at it does not lock again.
	idle := false
	err = locked.inTx(ctx, func(ctx context.Context, q query) (err error) {
		if out, err = marked(ctx, q.(overPgx).on.(*pgxpool.Conn), known); err != nil || d == Status {
			return err
		}
		plan, err := schema.Plan(out, d)
		idle = len(plan) == 0
		return err
	})
	if err != nil || d == Status || idle {
		return orNothing(out, told(err))
	}
	err = locked.inTx(ctx, func(ctx context.Context, q query) (err error) {
		if _, err := q.exec(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
			return err
		}
		out, err = s.applyMigrations(ctx, q.(overPgx).on.(*pgxpool.Conn), known, d)
		return err
	})
	return orNothing(out, told(err))
}

// applyMigrations applies what is missing while no other program does.
func (s *Store) applyMigrations(ctx context.Context, conn *pgxpool.Conn, known []Migration, d Direction) ([]Migration, error) {
	q := overPgx{conn}
	if err := prepareJournal(ctx, conn); err != nil {
		return nil, err
	}
	before, err := marked(ctx, conn, known)
	if err != nil {
		return nil, err
	}
	plan, err := schema.Plan(before, d)
	if err != nil {
		return nil, err
	}
	for _, m := range plan {
		if _, err := q.exec(ctx, m.SQL(d)); err != nil {
			return nil, err
		}
		if err := s.note(ctx, q, m, d); err != nil {
			return nil, err
		}
	}
	return marked(ctx, conn, known)
}

func (s *Store) note(ctx context.Context, q query, m Migration, d Direction) error {
	if d == Down {
		_, err := q.exec(ctx, "DELETE FROM retryproof_migrations WHERE version = $1", m.Version)
		return err
	}
	_, err := q.exec(ctx, "INSERT INTO retryproof_migrations (version, name, applied_at, compatible) VALUES ($1, $2, $3, $4)",
		m.Version, m.Name, record.Micros(s.config.Clock.Now()), m.Compatible)
	return err
}

// checkSchema applies what is missing, or refuses a database that lacks something.
func (s *Store) checkSchema(ctx context.Context) error {
	if s.config.Migrate {
		_, err := s.migrate(ctx, Up)
		return err
	}
	found, err := s.migrate(ctx, Status)
	if err != nil {
		return err
	}
	return schema.Missing(found, "run: retryproof migrate --store URL up")
}

// journalSQL reports whether the table of applied migrations is there, and whether it is
// under its earlier name, which other programs use for tables of theirs.
const journalSQL = `SELECT to_regclass('retryproof_migrations') IS NOT NULL, (SELECT count(*) = 3 FROM pg_attribute
	WHERE attrelid = to_regclass('schema_migrations') AND attname IN ('version', 'name', 'applied_at')) AND to_regclass('claims') IS NOT NULL`

// prepareJournal creates the table of applied migrations, or gives it its name.
func prepareJournal(ctx context.Context, conn *pgxpool.Conn) error {
	var there, earlier bool
	if err := conn.QueryRow(ctx, journalSQL).Scan(&there, &earlier); err != nil || there {
		return err
	}
	statements := []string{"CREATE TABLE retryproof_migrations (version bigint PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL, compatible boolean NOT NULL)"}
	if earlier {
		statements = []string{"ALTER TABLE schema_migrations RENAME TO retryproof_migrations",
			"ALTER TABLE retryproof_migrations ADD COLUMN compatible boolean NOT NULL DEFAULT false"}
	}
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// marked reads which migrations the database has.
func marked(ctx context.Context, q *pgxpool.Conn, known []Migration) ([]Migration, error) {
	var there, earlier bool
	if err := q.QueryRow(ctx, journalSQL).Scan(&there, &earlier); err != nil {
		return nil, err
	}
	sql := "SELECT version, name, compatible FROM retryproof_migrations ORDER BY version"
	switch {
	case !there && !earlier:
		return schema.Mark(known, nil)
	case !there:
		sql = "SELECT version, name, false FROM schema_migrations ORDER BY version"
	}
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	applied, err := pgx.CollectRows(rows, pgx.RowToStructByPos[schema.Applied])
	if err != nil {
		return nil, err
	}
	return schema.Mark(known, applied)
}
