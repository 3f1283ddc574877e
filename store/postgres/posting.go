package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/store/internal/record"
)

// An entry is written plainly, and the key of its first line refuses any other entry
// of its ref. Only when that happens does a second statement look whether exactly this
// entry is there, and then leaves it: by then whatever refused the first is committed
// and visible. So the usual entry, which is new, pays nothing for the rule.

// entrySQL are a statement's two forms.
type entrySQL struct{ first, again string }

func newEntrySQL(build func(skip string) string) entrySQL {
	return entrySQL{build(""), build(" AND NOT " + thereSQL)}
}

// thereSQL says of the posting g whether its ref has exactly the entry that is given.
const thereSQL = `(SELECT count(*) = (SELECT count(*) FROM given h WHERE h.ref = g.ref) AND bool_and(EXISTS (
		SELECT FROM given h WHERE h.ref = q.ref AND h.line = q.line AND h.account = q.account AND h.currency = q.currency AND h.amount = q.amount))
	FROM postings q WHERE q.ref = g.ref)`

// postedSQL are two queries of a WITH: the postings that are given, in the arrays of
// postingArrays from parameter number from on, and those that were written.
func postedSQL(from int, now, condition, skip string) string {
	return fmt.Sprintf(`given AS MATERIALIZED (
	SELECT * FROM unnest($%d::text[], $%d::bigint[], $%d::text[], $%d::text[], $%d::bigint[]) AS p (ref, line, account, currency, amount)
), posted AS (
	INSERT INTO postings (ref, line, account, currency, amount, created_at)
	SELECT g.ref, g.line, g.account, g.currency, g.amount, %s::bigint FROM given g WHERE %s%s
	RETURNING account, currency, amount
)`, from, from+1, from+2, from+3, from+4, now, condition, skip)
}

// postingArrays are the columns ref, line, account, currency and amount.
func postingArrays(postings []ledger.Posting) []any {
	n := len(postings)
	refs, lines, accounts, currencies, amounts := make([]string, 0, n), make([]int64, 0, n), make([]string, 0, n), make([]string, 0, n), make([]int64, 0, n)
	for _, entry := range record.Entries(postings) {
		for line, p := range entry {
			refs, lines, accounts = append(refs, p.Ref), append(lines, int64(line)), append(accounts, p.Account)
			currencies, amounts = append(currencies, p.Currency), append(amounts, p.Amount)
		}
	}
	return []any{refs, lines, accounts, currencies, amounts}
}

// posting runs the first form of a statement and, when a ref had an entry already, the
// second.
func (s *Store) posting(ctx context.Context, sql entrySQL, run func(sql string) error) error {
	return s.aligned(ctx, func() error {
		err := run(sql.first)
		if hasEntry(err) {
			err = run(sql.again)
		}
		return err
	})
}

// hasEntry reports whether the key of the postings refused a row.
func hasEntry(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23505" && e.TableName == "postings"
}

// postWithin writes one entry in plain statements, unless exactly this entry is there.
// errMoving says that another transaction has just written one: a new statement sees it.
func postWithin(ctx context.Context, q query, entry []ledger.Posting, now time.Time) error {
	var n int
	if err := q.row(ctx, "SELECT count(*) FROM postings WHERE ref = $1", entry[0].Ref).Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		return sameWithin(ctx, q, entry, n)
	}
	for line, p := range entry {
		n, err := q.exec(ctx, `INSERT INTO postings (ref, line, account, currency, amount, created_at)
			VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`, p.Ref, line, p.Account, p.Currency, p.Amount, record.Micros(now))
		if err != nil {
			return err
		}
		if n == 0 {
			return errMoving
		}
		if !record.KeepsBalance(p.Account) {
			continue
		}
		_, err = q.exec(ctx, `INSERT INTO accounts (account, currency, balance) VALUES ($1, $2, $3)
			ON CONFLICT (account, currency) DO UPDATE SET balance = accounts.balance + excluded.balance`, p.Account, p.Currency, p.Amount)
		if err != nil {
			return err
		}
	}
	return nil
}

// sameWithin refuses an entry whose ref has n lines that are not its own.
func sameWithin(ctx context.Context, q query, entry []ledger.Posting, n int) error {
	if n != len(entry) {
		return record.Invalid(record.OtherEntry)
	}
	for line, p := range entry {
		var there bool
		err := q.row(ctx, `SELECT count(*) > 0 FROM postings WHERE ref = $1 AND line = $2 AND account = $3 AND currency = $4 AND amount = $5`,
			p.Ref, line, p.Account, p.Currency, p.Amount).Scan(&there)
		if err != nil {
			return err
		}
		if !there {
			return record.Invalid(record.OtherEntry)
		}
	}
	return nil
}
