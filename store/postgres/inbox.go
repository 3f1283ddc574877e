package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/store/internal/record"
)

type inboxStore struct{ s *Store }

var _ inbox.Store = inboxStore{}

// noteInbox records the message; it reports false when it was there.
func noteInbox(ctx context.Context, q query, k retryproof.InboxKey, now time.Time) (bool, error) {
	n, err := q.exec(ctx, "INSERT INTO inbox (event_id, source, consumer, noted_at) VALUES ($1, $2, $3, $4) ON CONFLICT (event_id, source, consumer) DO NOTHING",
		k.EventID, k.Source, k.Consumer, record.Micros(now))
	return n > 0, err
}

// metSQL keeps a message that still comes from being forgotten. Its parameters are those
// of the insert. It waits for nobody: whoever holds the row does the same, or forgets it.
func metSQL(condition string) string {
	return `UPDATE inbox SET noted_at = $4 FROM (
		SELECT event_id, source, consumer FROM inbox
		WHERE event_id = $1 AND source = $2 AND consumer = $3 AND noted_at < $4` + condition + `
		FOR NO KEY UPDATE SKIP LOCKED
	) met WHERE inbox.event_id = met.event_id AND inbox.source = met.source AND inbox.consumer = met.consumer`
}

// meetInbox is noteInbox that keeps a message which still comes from being forgotten.
func meetInbox(ctx context.Context, q query, k retryproof.InboxKey, now time.Time) (bool, error) {
	first, err := noteInbox(ctx, q, k, now)
	if first || err != nil {
		return first, err
	}
	_, err = q.exec(ctx, metSQL(""), k.EventID, k.Source, k.Consumer, record.Micros(now))
	return false, err
}

// applySQL records a message and, when it is the first, its effect, in one statement.
var applySQL = newEntrySQL(func(skip string) string {
	return `WITH seen AS (
	INSERT INTO inbox (event_id, source, consumer, noted_at) VALUES ($1::text, $2::text, $3::text, $4::bigint)
	ON CONFLICT (event_id, source, consumer) DO NOTHING RETURNING 1
), met AS (
	` + metSQL(" AND NOT EXISTS (SELECT FROM seen)") + `
), ` + postedSQL(5, "$4", "EXISTS (SELECT FROM seen)", skip) + `, balanced AS (
	` + balanceSQL + `
), published AS (
	INSERT INTO outbox (event_id, type, group_key, body, at, attempts, leased_by, reason)
	SELECT e.id, e.type, e.grp, e.body, e.at, 0, '', ''
	FROM unnest($10::text[], $11::text[], $12::text[], $13::bytea[], $14::bigint[]) WITH ORDINALITY AS e (id, type, grp, body, at, n)
	WHERE EXISTS (SELECT FROM seen)
	ORDER BY e.n
	ON CONFLICT (event_id) DO NOTHING
), intended AS (
	INSERT INTO notifications (event_id, channel, replace_id, recipient, title, body, state, sends, created_at)
	SELECT i.event, i.channel, i.replace_id, i.recipient, i.title, i.body, 'PENDING', 0, i.at
	FROM unnest($15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::bigint[]) AS i (event, channel, replace_id, recipient, title, body, at)
	WHERE EXISTS (SELECT FROM seen)
	ON CONFLICT (event_id, channel) DO NOTHING
)
SELECT EXISTS (SELECT FROM seen)`
})

// Apply records the message and, the first time, its effect.
func (i inboxStore) Apply(ctx context.Context, a inbox.Apply) (bool, error) {
	err := errors.Join(record.CheckInbox(a.Key, a.Now), ledger.Check(a.Postings), record.CheckIntents(a.Intents), record.CheckEvents(a.Events))
	if err != nil {
		return false, err
	}
	args := []any{a.Key.EventID, a.Key.Source, a.Key.Consumer, record.Micros(a.Now)}
	args = append(append(args, postingArrays(a.Postings)...), eventArrays(a.Events)...)
	args = append(args, intentArrays(record.NewIntents(a.Intents, a.Now))...)
	var first bool
	err = i.s.posting(ctx, applySQL, func(sql string) error {
		return i.s.write(ctx, statement{sql, args, eachRow(func(row scanner) error { return row.Scan(&first) })})
	})
	return first && err == nil, err
}

// intentArrays are the columns of intents that a program gives.
func intentArrays(intents []notify.Intent) []any {
	n := len(intents)
	texts := make([][]string, 6)
	for i := range texts {
		texts[i] = make([]string, n)
	}
	times := make([]int64, n)
	for k, i := range intents {
		for column, v := range []string{i.EventID, i.Channel, i.ReplaceID, i.To, i.Title, i.Body} {
			texts[column][k] = v
		}
		times[k] = record.Micros(i.CreatedAt)
	}
	return []any{texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], times}
}

// Forget deletes old records and leaves those that somebody has locked for later, so
// that it waits for nobody.
func (i inboxStore) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	n, err := i.s.countChanged(ctx, `WITH old AS MATERIALIZED (
		SELECT event_id, source, consumer FROM inbox WHERE noted_at < $1
		ORDER BY noted_at, event_id, source, consumer LIMIT $2 FOR UPDATE SKIP LOCKED
	) DELETE FROM inbox USING old
	WHERE inbox.event_id = old.event_id AND inbox.source = old.source AND inbox.consumer = old.consumer`, record.Micros(before), max(limit, 0))
	return int(n), err
}
