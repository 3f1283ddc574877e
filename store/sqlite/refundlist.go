package sqlite

import (
	"context"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
	"github.com/retryproof/retryproof/store/internal/record"
)

// RefundsBetween lists refunds over all payments; see payments.RefundList.
func (l ledgerStore) RefundsBetween(ctx context.Context, from, to time.Time, after payments.Refund, limit int) ([]payments.Refund, error) {
	q := payments.Query{From: from, To: to, After: payments.Payment{ID: after.ID, CreatedAt: after.CreatedAt}, Limit: limit}
	if err := record.CheckQuery(q); err != nil {
		return nil, err
	}
	t := table(record.Refunds)
	var out []payments.Refund
	err := listGuards(ctx, l.s, t, t.list+` WHERE created_at >= ?1 AND created_at < ?2 AND (created_at, refund_id) > (?3, ?4) AND amount > 0
		ORDER BY created_at, refund_id LIMIT ?5`, record.QueryArgs(q), func(g *effect.Guard) { out = append(out, g.Row.(payments.Refund)) })
	return orNothing(out, err)
}
