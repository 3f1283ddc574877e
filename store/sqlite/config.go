package sqlite

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/retryproof/retryproof/clock"
)

// Config says which database to open. Only Path is needed.
type Config struct {
	// Path is the database file; "sqlite:" or "file:" before it is dropped. Its
	// folder must exist. ":memory:" is a database of this process that ends with
	// Close. Required.
	Path string
	// Migrate applies missing migrations. Defaults to false: a database that lacks
	// one is refused.
	Migrate bool
	// BusyTimeout is how long to wait for another process's lock before
	// CodeConflict; negative does not wait. Defaults to 5 s.
	BusyTimeout time.Duration
	// Readers is how many connections read beside the writer. Defaults to 4.
	Readers int
	// MaxGroup is how many callers' writes share one commit at most. Defaults to
	// 128.
	MaxGroup int
	// Clock stamps migrations, nothing else. Defaults to clock.System().
	Clock clock.Clock
}

func (c Config) withDefaults() Config {
	for _, scheme := range []string{"sqlite://", "sqlite:", "file:"} {
		c.Path = strings.TrimPrefix(c.Path, scheme)
	}
	switch {
	case c.BusyTimeout == 0:
		c.BusyTimeout = 5 * time.Second
	case c.BusyTimeout < 0:
		c.BusyTimeout = 0
	}
	if c.Readers == 0 {
		c.Readers = 4
	}
	if c.MaxGroup == 0 {
		c.MaxGroup = 128
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return c
}

// Validate returns everything that is wrong with the configuration at once.
func (c Config) Validate() error {
	var errs []error
	if d := c.withDefaults(); d.Path == "" || strings.ContainsAny(d.Path, "?#") {
		errs = append(errs, errors.New("sqlite: Path is empty or has a '?' or '#'"))
	}
	if c.Readers < 0 {
		errs = append(errs, fmt.Errorf("sqlite: Readers is %d, must not be negative", c.Readers))
	}
	if c.MaxGroup < 0 {
		errs = append(errs, fmt.Errorf("sqlite: MaxGroup is %d, must not be negative", c.MaxGroup))
	}
	return errors.Join(errs...)
}

func (c Config) inMemory() bool { return c.Path == ":memory:" }

// DSN is the data source name of the same database for sql.Open("sqlite", …), with
// the same settings: write-ahead log, a full sync on commit, and transactions that
// take the write lock when they begin, so that they cannot fail on it later. Use it
// for transactions of your own and [Within].
func (c Config) DSN() string {
	c = c.withDefaults()
	return c.dsn("_txlock=immediate")
}

func (c Config) dsn(extra ...string) string {
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", c.BusyTimeout.Milliseconds()),
		"foreign_keys(1)",
		"journal_mode(WAL)",
		"synchronous(FULL)",
	}
	for _, p := range pragmas {
		extra = append(extra, "_pragma="+p)
	}
	path := (&url.URL{Path: c.Path}).EscapedPath()
	return "file:" + path + "?" + strings.Join(extra, "&")
}
