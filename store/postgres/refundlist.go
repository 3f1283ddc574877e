package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/internal/record"
)

var refundsBetweenSQL = fmt.Sprintf(`SELECT %s FROM refunds
	WHERE created_at >= $1 AND created_at < $2 AND (created_at, refund_id) > ($3, $4) AND amount > 0
	ORDER BY created_at, refund_id LIMIT $5`, strings.Join(record.Refunds.Columns(), ", "))

// RefundsBetween lists refunds over all payments; see payments.RefundList.
func (l ledgerStore) RefundsBetween(ctx context.Context, from, to time.Time, after payments.Refund, limit int) ([]payments.Refund, error) {
	q := payments.Query{From: from, To: to, After: payments.Payment{ID: after.ID, CreatedAt: after.CreatedAt}, Limit: limit}
	if err := record.CheckQuery(q); err != nil {
		return nil, err
	}
	if cannotExist(string(after.ID)) {
		return nil, nil
	}
	var out []payments.Refund
	err := l.s.read(ctx, statement{refundsBetweenSQL, record.QueryArgs(q), rowsOf(record.Refunds, &out)})
	return orNothing(out, err)
}
