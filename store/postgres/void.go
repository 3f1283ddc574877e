package postgres

import (
	"fmt"
	"strings"

	"github.com/retryproof/retryproof/store/internal/record"
)

// voidSQL is a Begin with Void, in one statement with the parameters of beginSQL. It
// locks in beginSQL's order, the claim before the guard, so that the two wait for each
// other instead of deadlocking: a VOID claim is written when no guard is seen that
// speaks against it, and then the guard. A guard that another transaction has committed
// meanwhile without touching the claim, as a Guards half may, wins: the statement then
// fails by dividing by zero, so that its claim is not written either, and the next try
// sees that guard.
func voidSQL(t record.Table) string {
	claim, columns := record.ClaimColumns, t.Columns()
	now, guard := len(claim)+1, len(claim)+2
	return fmt.Sprintf(`WITH live AS (
	SELECT * FROM claims WHERE scope_id = $1::text AND (expires_at IS NULL OR expires_at >= $%[1]d::bigint)
), there AS MATERIALIZED (
	SELECT state FROM %[5]s WHERE %[8]s = $%[11]d::text
), claimed AS (
	INSERT INTO claims (%[2]s) SELECT %[3]s WHERE NOT EXISTS (SELECT FROM live) AND NOT EXISTS (SELECT FROM there WHERE state <> 'VOID')
	ON CONFLICT (scope_id) DO UPDATE SET %[4]s WHERE claims.expires_at < $%[1]d::bigint
	RETURNING scope_id
), recorded AS (
	INSERT INTO %[5]s (%[6]s) SELECT %[7]s WHERE (SELECT count(*) FROM claimed) >= 0 AND NOT EXISTS (SELECT FROM there)
	ON CONFLICT DO NOTHING
	RETURNING %[8]s
)
SELECT EXISTS (SELECT FROM claimed), EXISTS (SELECT FROM recorded),
	1 / CASE WHEN EXISTS (SELECT FROM claimed) AND NOT EXISTS (SELECT FROM recorded) AND NOT EXISTS (SELECT FROM there) THEN 0 ELSE 1 END = 1,
	%[9]s, %[10]s
FROM (SELECT) one LEFT JOIN live ON true LEFT JOIN %[5]s g ON g.%[8]s = $%[11]d::text`,
		now, strings.Join(claim, ", "), marks(1, claim), excluded(claim[1:]),
		t.Name, strings.Join(columns, ", "), marks(guard, columns), t.ID,
		record.Prefixed("live", claim), record.Prefixed("g", columns), guard)
}

// overtaken reports whether a void's statement refused itself.
func overtaken(err error) bool { return sqlState(err) == "22012" }
