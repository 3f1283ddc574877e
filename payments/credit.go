package payments

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/ledger"
	"github.com/retryproof/retryproof/notify"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/resolve"
)

// The parts of the inbox keys.
const (
	consumerCredit  = "merchant-credit"
	consumerWebhook = "psp-webhook"
	sourcePayments  = "payments"
	sourcePSP       = "psp"
	channelPush     = "push"
)

// apply is what an event does, once.
func (s *System) apply(ctx context.Context, d queue.Delivery) (inbox.Apply, error) {
	if d.Type == EventRefunded {
		return s.debit(d)
	}
	return s.credit(ctx, d)
}

// debit is what a "refund succeeded" event does, once: the merchant is debited and
// the buyer's notification is recorded.
func (s *System) debit(d queue.Delivery) (inbox.Apply, error) {
	e, err := parseRefunded(d.Body)
	if err != nil {
		return inbox.Apply{}, fmt.Errorf("payments: the event's body is not its JSON: %w", err)
	}
	if e.RefundID.Sub("SUCCEEDED") != d.ID {
		return inbox.Apply{}, fmt.Errorf("payments: event %s of type %q is not one of ours", d.ID, d.Type)
	}
	return inbox.Apply{
		Key: retryproof.InboxKey{Consumer: consumerCredit, Source: sourcePayments, EventID: d.ID},
		Now: s.deps.Clock.Now(),
		Postings: []ledger.Posting{
			{Account: accountRefunds, Currency: e.Currency, Amount: e.Amount, Ref: d.ID},
			{Account: MerchantAccount(e.MerchantID), Currency: e.Currency, Amount: -e.Amount, Ref: d.ID},
		},
		Intents: []notify.Intent{{
			Key: notify.Key{EventID: d.ID, Channel: channelPush}, ReplaceID: string(e.RefundID), To: e.Caller,
			Title: "Refund sent", Body: fmt.Sprintf("%s for order %s", formatAmount(e.Amount, e.Currency), e.OrderID),
			State: notify.Pending, CreatedAt: s.deps.Clock.Now(),
		}},
	}, nil
}

// credit is what a "payment succeeded" event does, once: the merchant is credited
// and the buyer's notification is recorded.
func (s *System) credit(ctx context.Context, d queue.Delivery) (inbox.Apply, error) {
	e, err := parseSucceeded(d.Body)
	if err != nil {
		return inbox.Apply{}, fmt.Errorf("payments: the event's body is not its JSON: %w", err)
	}
	if d.Type != EventSucceeded || e.ID.Sub("SUCCEEDED") != d.ID {
		return inbox.Apply{}, fmt.Errorf("payments: event %s of type %q is not one of ours", d.ID, d.Type)
	}
	if err := s.flagDuplicate(ctx, e); err != nil {
		return inbox.Apply{}, err
	}
	return inbox.Apply{
		Key: retryproof.InboxKey{Consumer: consumerCredit, Source: sourcePayments, EventID: d.ID},
		Now: s.deps.Clock.Now(),
		Postings: []ledger.Posting{
			{Account: accountTransit, Currency: e.Currency, Amount: -e.Amount, Ref: d.ID},
			{Account: MerchantAccount(e.MerchantID), Currency: e.Currency, Amount: e.Amount, Ref: d.ID},
		},
		Intents: []notify.Intent{{
			Key: notify.Key{EventID: d.ID, Channel: channelPush}, ReplaceID: string(e.ID), To: e.Caller,
			Title: "Payment received", Body: formatAmount(e.Amount, e.Currency) + " for order " + e.OrderID,
			State: notify.Pending, CreatedAt: s.deps.Clock.Now(),
		}},
	}, nil
}

// pageOfOrders is how many payments of one order are read at a time.
const pageOfOrders = 50

// flagDuplicate looks for another payment of the same order (case 24). Two keys are
// two payments, and two tabs can pay one order; both charges stand, and a person is
// told, once, so that one of them can be refunded. It runs for each settled payment
// after its settlement, so that of two the later look sees both. Each is compared with
// the order's first; the first, when it is settled last, with the second.
func (s *System) flagDuplicate(ctx context.Context, e Payment) error {
	q := Query{Caller: e.Caller, MerchantID: e.MerchantID, OrderID: e.OrderID, Limit: pageOfOrders}
	isFirst := false
	for {
		page, err := s.deps.Store.Ledger.Payments(ctx, q)
		if err != nil {
			return err
		}
		for _, p := range page {
			switch {
			case p.State != effect.Succeeded:
			case isFirst:
				return s.flag(ctx, p.ID, e.ID)
			case p.ID != e.ID:
				return s.flag(ctx, e.ID, p.ID)
			default:
				isFirst = true
			}
		}
		if len(page) < pageOfOrders {
			return nil
		}
		q.After = page[len(page)-1]
	}
}

// flag keeps that an order was paid before, with the payment, and before that tells a
// person: a crash in between tells them again.
func (s *System) flag(ctx context.Context, id, first retryproof.ID) error {
	now := s.deps.Clock.Now()
	note := resolve.ConflictNote("order "+string(first), "ledger", fmt.Sprintf("the order was paid before, by %s: refund one of them", first), now)
	if resolve.Told(ctx, s.deps.Store.Due, id, note.Name) {
		return nil
	}
	s.deps.Metrics.Add("retryproof_duplicate_orders_total", 1)
	s.deps.Log.Error("an order was paid twice under two keys: a person must look", "payment", id, "first", first)
	_, err := s.engine.Settle(ctx, effect.Settle{ID: id, To: effect.Succeeded, By: "ledger", Now: now, Note: note}) // no From: it moves nothing
	return err
}

// The currencies of ISO 4217 whose minor unit is not a hundredth.
const (
	currenciesWithoutDecimals = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
	currenciesOfThousandths   = "BHD IQD JOD KWD LYD OMR TND"
)

// formatAmount writes an amount of minor units as people read it: USD 30.00, JPY
// 3000, KWD 3.000.
func formatAmount(amount int64, currency string) string {
	switch {
	case strings.Contains(currenciesWithoutDecimals, currency):
		return currency + " " + strconv.FormatInt(amount, 10)
	case strings.Contains(currenciesOfThousandths, currency):
		return decimal(currency, amount, 3)
	}
	return decimal(currency, amount, 2)
}

// decimal writes a positive amount with that many decimals.
func decimal(currency string, amount int64, decimals int) string {
	digits := strconv.FormatInt(amount, 10)
	for len(digits) <= decimals {
		digits = "0" + digits
	}
	point := len(digits) - decimals
	return currency + " " + digits[:point] + "." + digits[point:]
}

// sawDelivery tells the hop table what the consumer did with a delivery.
func (s *System) sawDelivery(what string, d queue.Delivery) {
	s.deps.Metrics.Add("retryproof_inbox_total", 1, "what", what)
	if what == inbox.SawLate {
		return // this delivery was counted
	}
	id := paymentOf(d.ID)
	s.saw(id, hopQueue, "deliveries")
	switch what {
	case inbox.SawApplied:
		s.saw(id, hopWorker, "credits")
	case inbox.SawRepeat:
		s.saw(id, hopWorker, "repeats dropped")
	case inbox.SawParked:
		s.setAside(hopWorker, d.ID)
	}
}

func (s *System) sawIntent(what string, i notify.Intent) {
	s.deps.Metrics.Add("retryproof_notifications_total", 1, "what", what)
	id := paymentOf(i.EventID)
	switch what {
	case "sent":
		s.saw(id, hopPush, "sends")
	case "skipped":
		s.saw(id, hopPush, "repeats dropped")
	case "failed":
		s.saw(id, hopPush, "failed sends")
	case "refused":
		s.saw(id, hopPush, "refused")
		s.deps.Log.Warn("a notification is not sent any more; the reason is with its intent", "event", i.EventID)
	}
}
