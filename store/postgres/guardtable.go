package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/store/internal/record"
)

// guardTable is a table of guards with its statements.
type guardTable struct {
	record.Table
	begin, void, look, read, ofScope, insert, reserve, adopt, lockRelease, release, due, move string
	// settle keeps no evidence, settleNoting does.
	settle, settleNoting entrySQL
}

var guardTables = map[string]*guardTable{
	record.Guards.Name:   newGuardTable(record.Guards),
	record.Payments.Name: newGuardTable(record.Payments),
	record.Refunds.Name:  newGuardTable(record.Refunds),
}

func table(t record.Table) *guardTable { return guardTables[t.Name] }

func newGuardTable(t record.Table) *guardTable {
	columns := strings.Join(t.Columns(), ", ")
	reserve := ""
	if t.Kind == record.RefundRows {
		reserve = reserveSQL(t)
	}
	lock, release := releaseSQL(t)
	return &guardTable{
		Table: t,
		begin: beginSQL(t), void: voidSQL(t), reserve: reserve,
		look: fmt.Sprintf("SELECT %s, %s FROM (SELECT) one LEFT JOIN claims c ON c.scope_id = $1 LEFT JOIN %s g ON g.%s = $2",
			record.Prefixed("c", record.ClaimColumns), record.Prefixed("g", t.Columns()), t.Name, t.ID),
		read:    fmt.Sprintf("SELECT %s FROM %s WHERE %s = $1", columns, t.Name, t.ID),
		ofScope: fmt.Sprintf("SELECT %s FROM %s WHERE client_key = $1 AND %s = $2 AND endpoint = $3", t.ID, t.Name, t.Caller),
		insert: fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT DO NOTHING",
			t.Name, columns, marks(1, t.Columns())),
		adopt: fmt.Sprintf("UPDATE %s SET state = $1, owner = $2, lease_until = $3, tries = $4, updated_at = $5 WHERE %s = $6",
			t.Name, t.ID),
		lockRelease: lock, release: release,
		due: fmt.Sprintf(`SELECT %s FROM %s WHERE state IN ('PENDING', 'UNKNOWN') AND coalesce(lease_until + $2 < $1, true)
			AND ((state = 'UNKNOWN' AND coalesce(next_at <= $1, true)) OR (state = 'PENDING' AND NOT $3))
			ORDER BY updated_at, %s LIMIT $4`, columns, t.Name, t.ID),
		settle:       newEntrySQL(func(skip string) string { return settleSQL(t, skip, false) }),
		settleNoting: newEntrySQL(func(skip string) string { return settleSQL(t, skip, true) }),
		move:         moveSQL(t, 1, "") + " RETURNING " + columns,
	}
}

// cast gives a parameter its column's type, so that no protocol has to guess.
func cast(column string) string {
	switch {
	case slices.Contains([]string{"answer", "result", "body"}, column):
		return "bytea"
	case slices.Contains([]string{"lease_until", "expires_at", "next_at", "created_at", "updated_at", "tries", "amount", "refunded"}, column):
		return "bigint"
	}
	return "text"
}

// marks are the numbered parameters of columns, from the given number on.
func marks(from int, columns []string) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = fmt.Sprintf("$%d::%s", from+i, cast(c))
	}
	return strings.Join(parts, ", ")
}

func excluded(columns []string) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = c + " = excluded." + c
	}
	return strings.Join(parts, ", ")
}

// beginSQL claims and records in one statement. A repeat finds the live claim first,
// and then nothing is written or locked. Parameters: the claim's columns, the time,
// the guard's columns. A refund's amount is reserved in it; see allowedSQL.
//
// A claim must not be written without its guard. When a guard that the statement does not
// see is in the way, the same one of a transaction that has just committed, or another one
// of the scope, the statement fails by dividing by zero, and nothing of it is written.
func beginSQL(t record.Table) string {
	claim, columns := record.ClaimColumns, t.Columns()
	now, guard := len(claim)+1, len(claim)+2
	mine := fmt.Sprintf("EXISTS (SELECT FROM live WHERE state = 'IN_PROGRESS' AND owner = $%d::text)", slices.Index(claim, "owner")+1)
	allowed, mayClaim, may, reserved, mayRun := "", "", "", "", "true"
	if t.Kind == record.RefundRows {
		allowed = ", " + allowedSQL(t, guard, " AND (NOT EXISTS (SELECT FROM live) OR "+mine+")")
		mayClaim, may = " AND ("+mayRecord+")", " AND EXISTS (SELECT FROM allowed)"
		reserved, mayRun = ", "+reservedSQL(t, guard), mayRecord
	}
	return fmt.Sprintf(`WITH live AS (
	SELECT * FROM claims WHERE scope_id = $1::text AND (expires_at IS NULL OR expires_at >= $%[1]d::bigint)
)%[13]s, claimed AS (
	INSERT INTO claims (%[2]s) SELECT %[3]s WHERE NOT EXISTS (SELECT FROM live)%[14]s
	ON CONFLICT (scope_id) DO UPDATE SET %[4]s WHERE claims.expires_at < $%[1]d::bigint
	RETURNING scope_id
), recorded AS (
	INSERT INTO %[5]s (%[6]s) SELECT %[7]s
	WHERE (EXISTS (SELECT FROM claimed) OR %[8]s)%[15]s
	ON CONFLICT DO NOTHING
	RETURNING %[9]s
)%[16]s
SELECT EXISTS (SELECT FROM claimed), EXISTS (SELECT FROM recorded),
	(%[17]s) AND 1 / CASE WHEN EXISTS (SELECT FROM claimed) AND NOT EXISTS (SELECT FROM recorded) AND g.%[9]s IS NULL THEN 0 ELSE 1 END = 1,
	%[10]s, %[11]s
FROM (SELECT) one LEFT JOIN live ON true LEFT JOIN %[5]s g ON g.%[9]s = $%[12]d::text`,
		now, strings.Join(claim, ", "), marks(1, claim), excluded(claim[1:]),
		t.Name, strings.Join(columns, ", "), marks(guard, columns), mine, t.ID,
		record.Prefixed("live", claim), record.Prefixed("g", columns), guard, allowed, mayClaim, may, reserved, mayRun)
}

func (t *guardTable) beginArgs(b effect.Begin) ([]any, error) {
	claim, err := record.ClaimArgs(record.NewClaim(b))
	if err != nil {
		return nil, err
	}
	row, err := t.InsertArgs(b)
	if err != nil {
		return nil, err
	}
	return append(append(claim, record.Micros(b.Now)), row...), nil
}

// moveSQL is the compare-and-set of a settlement, with moveParams parameters from the
// given number on, and a further condition.
func moveSQL(t record.Table, from int, condition string) string {
	n := func(i int) string { return fmt.Sprintf("$%d", from+i) }
	var business strings.Builder
	for i, c := range t.BusinessColumns() {
		fmt.Fprintf(&business, ", %s = coalesce(%s::%s, %s)", c, n(7+i), cast(c), c)
	}
	return fmt.Sprintf(`UPDATE %s SET state = %s::text, owner = '', lease_until = NULL, settled_by = %s::text,
		updated_at = %s::bigint, next_at = %s::bigint%s
	WHERE %s = %s::text AND state = ANY (string_to_array(%s::text, ',')) AND (NOT %s::bool OR owner = %s::text)%s`,
		t.Name, n(2), n(3), n(5), n(6), business.String(), t.ID, n(0), n(1), n(4), n(3), condition)
}

// moveArgs are moveSQL's parameters.
func (t *guardTable) moveArgs(s effect.Settle) ([]any, error) {
	business, err := t.SettleArgs(s)
	if err != nil {
		return nil, err
	}
	args := []any{string(s.ID), strings.Join(record.From(s), ","), string(s.To), s.By, s.Fenced,
		record.Micros(s.Now), record.Nullable(record.NextAt(s))}
	return append(args, business...), nil
}

// settleSQL settles in one statement: everything hangs on "moved", and that on "seen",
// the inbox. Parameters: the move's, then those of settleArgs, and of evidenceArgs when
// it is noting.
func settleSQL(t record.Table, skip string, noting bool) string {
	first := 7 + len(t.BusinessColumns()) + 1
	n := func(i int) string { return fmt.Sprintf("$%d", first+i) }
	condition := fmt.Sprintf(" AND (NOT %s::bool OR EXISTS (SELECT FROM seen))", n(0))
	before, after, noted := "", "", "false"
	if t.Kind == record.RefundRows {
		before = paidSQL("$3::text IN ('FAILED', 'VOID')") + ", "
		after = ", returned AS (\n\t" + returnedSQL("moved") + " AND $3::text IN ('FAILED', 'VOID')\n)"
		condition += afterPaid
	}
	if noting {
		held, kept := keptSQL(t, first+18, condition)
		before, after = before+held, after+kept
		condition += " AND EXISTS (SELECT FROM held)"
		noted = fmt.Sprintf("EXISTS (SELECT FROM kept WHERE name = %s::text)", n(24))
	}
	return fmt.Sprintf(`WITH seen AS (
	INSERT INTO inbox (event_id, source, consumer, noted_at) SELECT %[1]s::text, %[2]s::text, %[3]s::text, $6::bigint WHERE %[4]s::bool
	ON CONFLICT (event_id, source, consumer) DO NOTHING RETURNING 1
), %[20]smoved AS (
	%[5]s
	RETURNING %[6]s
), %[7]s, balanced AS (
	%[8]s
), published AS (
	INSERT INTO outbox (event_id, type, group_key, body, at, attempts, leased_by, reason)
	SELECT e.id, e.type, e.grp, e.body, e.at, 0, '', ''
	FROM unnest(%[9]s::text[], %[10]s::text[], %[11]s::text[], %[12]s::bytea[], %[13]s::bigint[]) WITH ORDINALITY AS e (id, type, grp, body, at, n)
	WHERE EXISTS (SELECT FROM moved)
	ORDER BY e.n
	ON CONFLICT (event_id) DO NOTHING
), completed AS (
	UPDATE claims SET state = 'COMPLETE', answer = %[14]s::bytea, expires_at = %[15]s::bigint
	WHERE scope_id = %[16]s::text AND owner = %[17]s::text AND %[18]s AND EXISTS (SELECT FROM moved)
	RETURNING 1
)%[21]s
SELECT EXISTS (SELECT FROM seen), EXISTS (SELECT FROM completed), %[22]s, %[19]s
FROM (SELECT) one LEFT JOIN moved ON true`,
		n(1), n(2), n(3), n(0), moveSQL(t, 1, condition), strings.Join(t.Columns(), ", "), postedSQL(first+4, "$6", "EXISTS (SELECT FROM moved)", skip), balanceSQL,
		n(9), n(10), n(11), n(12), n(13), n(14), n(15), n(16), n(17), completable, record.Prefixed("moved", t.Columns()), before, after, noted)
}

// balanceSQL adds what was posted to the balances that are kept, in one order, so that
// two transactions cannot wait for each other.
const balanceSQL = `INSERT INTO accounts (account, currency, balance)
	SELECT account, currency, sum(amount)::bigint FROM posted WHERE account LIKE 'merchant:%'
	GROUP BY account, currency ORDER BY account, currency
	ON CONFLICT (account, currency) DO UPDATE SET balance = accounts.balance + excluded.balance`

// completable is a claim that may take an answer.
const completable = "(state = 'IN_PROGRESS' OR (state = 'COMPLETE' AND answer IS NULL))"
