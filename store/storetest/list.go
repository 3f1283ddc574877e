package storetest

import (
	"context"
	"fmt"
	"strings"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/payments"
)

// listCases are the promises of payments.Query.
func listCases() []testCase {
	return []testCase{
		{"PaymentsAreListedInOrder", listOrder},
		{"PeriodHasItsBeginningAndNotItsEnd", listPeriod},
		{"PagesMissNothingAndRepeatNothing", listPages},
		{"OrderIsOneCallersOfOneMerchant", listByOrder},
		{"ListedPaymentIsTheWholePayment", listWhole},
		{"ListNeedsALimit", listLimit},
	}
}

func (w *world) list(q payments.Query) []payments.Payment {
	w.Helper()
	return must(w, func(ctx context.Context) ([]payments.Payment, error) { return w.Payments.Ledger.Payments(ctx, q) })
}

func (w *world) wantList(what string, q payments.Query, want ...string) {
	w.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	check(w, what, paymentIDs(w.list(q)), strings.Join(want, " "))
}

func paymentIDs(list []payments.Payment) string {
	var out []string
	for _, p := range list {
		out = append(out, string(p.ID))
	}
	return strings.Join(out, " ")
}

// paid begins a payment of an order.
func (w *world) pays(id retryproof.ID, caller, merchant, order string, now float64) *subject {
	w.Helper()
	s := w.subjectOf(paymentKind, retryproof.Scope{Endpoint: "payments", Caller: caller, Key: retryproof.Key("key of " + id)})
	s.id = id
	b := s.beginning("A1", now)
	row := b.Row.(payments.Payment)
	row.MerchantID, row.OrderID = merchant, order
	b.Row = row
	s.beginAs(b)
	return s
}

// listed are payments of which many began at the same time, in the order that they
// must be listed in: by time, then by the bytes of their ids.
var listed = []struct {
	id  retryproof.ID
	now float64
}{
	{"pay_z", 1}, {"pay_10", 2}, {"pay_9", 2}, {"pay_B", 2}, {"pay__", 2}, {"pay_a", 2}, {"pay_b", 2}, {"pay_y", 2 + tick}, {"pay_c", 3}, {"pay_d", 3}, {"pay_x", 4},
}

func (w *world) paysListed() (want []string) {
	w.Helper()
	for i := range listed {
		one := listed[(i*7+3)%len(listed)]
		w.pays(one.id, "u1", "m1", "42", one.now)
	}
	for _, one := range listed {
		want = append(want, string(one.id))
	}
	return want
}

func listOrder(w *world) {
	w.wantList("an empty list", payments.Query{})
	want := w.paysListed()
	w.wantList("the list", payments.Query{}, want...)
	for limit := 1; limit <= len(want)+1; limit++ {
		w.wantList(fmt.Sprintf("the first %d", limit), payments.Query{Limit: limit}, want[:min(limit, len(want))]...)
	}
	voided := w.subject(paymentKind, "voided")
	voided.id = "pay_v"
	voided.void("R", 5)
	w.wantList("with a void", payments.Query{}, append(want, "pay_v")...)
	moved := w.subject(paymentKind, "moved") // the list is by when they began, not by when they moved
	moved.id = "pay_z"
	moved.settle(moved.evidence("W", effect.Succeeded, 9))
	w.wantList("after a move", payments.Query{}, append(want, "pay_v")...)
}

func listPeriod(w *world) {
	want := w.paysListed()
	for _, c := range []struct {
		what  string
		query payments.Query
		want  []string
	}{
		{"from exactly the first", payments.Query{From: at(1)}, want},
		{"from a microsecond later", payments.Query{From: at(1 + tick)}, want[1:]},
		{"to exactly the last", payments.Query{To: at(4)}, want[:10]},
		{"to a microsecond later", payments.Query{To: at(4 + tick)}, want},
		{"one microsecond", payments.Query{From: at(2), To: at(2 + tick)}, want[1:7]},
		{"the next microsecond", payments.Query{From: at(2 + tick), To: at(2 + 2*tick)}, want[7:8]},
		{"in another zone", payments.Query{From: at(2).In(zone), To: at(3).In(zone)}, want[1:8]},
		{"nothing", payments.Query{From: at(2), To: at(2)}, nil},
		{"an end before its beginning", payments.Query{From: at(3), To: at(1)}, nil},
		{"a quiet time", payments.Query{From: at(2.5), To: at(3)}, nil},
	} {
		w.wantList(c.what, c.query, c.want...)
	}
}

func listPages(w *world) {
	want := w.paysListed()
	for limit := 1; limit <= len(want); limit++ {
		for _, q := range []payments.Query{{}, {Caller: "u1", MerchantID: "m1", OrderID: "42"}, {From: at(1), To: at(5)}} {
			var got []string
			for q.Limit = limit; len(got) <= len(want); {
				page := w.list(q)
				if len(page) == 0 {
					break
				}
				check(w, "the page is within its limit", len(page) <= limit, true)
				got = append(got, paymentIDs(page))
				q.After = page[len(page)-1]
			}
			check(w, fmt.Sprintf("pages of %d", limit), strings.Join(got, " "), strings.Join(want, " "))
		}
	}
	w.wantList("after a payment that is not there", payments.Query{After: payments.Payment{ID: "pay_A", CreatedAt: at(2)}}, want[3:]...)
	w.wantList("after one within a period", payments.Query{After: payments.Payment{ID: "pay_B", CreatedAt: at(2)}, To: at(3)}, want[4:8]...)
	w.wantList("after one before the period", payments.Query{After: payments.Payment{ID: "pay_z", CreatedAt: at(1)}, From: at(3)}, want[8:]...)
}

func listByOrder(w *world) {
	w.pays("pay_1", "u1", "m1", "42", 1)
	w.pays("pay_2", "u1", "m1", "43", 2)
	w.pays("pay_3", "u2", "m1", "42", 3)
	w.pays("pay_4", "u1", "m2", "42", 4)
	w.pays("pay_5", "u1", "m1", "42", 5)
	w.pays("pay_6", "u1", "m1", "42 ", 6)
	order := func(caller, merchant, order string) payments.Query {
		return payments.Query{Caller: caller, MerchantID: merchant, OrderID: order}
	}
	w.wantList("the order", order("u1", "m1", "42"), "pay_1", "pay_5")
	w.wantList("another order", order("u1", "m1", "43"), "pay_2")
	w.wantList("another caller's", order("u2", "m1", "42"), "pay_3")
	w.wantList("another merchant's", order("u1", "m2", "42"), "pay_4")
	for _, q := range []payments.Query{order("u2", "m2", "42"), order("u1", "m1", "4"), order("U1", "m1", "42"), order("u1", "m1", "\x00"), order("\xff", "m1", "42")} {
		w.wantList(fmt.Sprintf("nobody's order %q", q.OrderID), q)
	}
	q := order("u1", "m1", "42")
	q.From = at(1 + tick)
	w.wantList("the order later on", q, "pay_5")
	q.From, q.After = at(0), payments.Payment{ID: "pay_1", CreatedAt: at(1)}
	w.wantList("the order after the first", q, "pay_5")
	q.After, q.Limit = payments.Payment{}, 1
	w.wantList("the first of the order", q, "pay_1")
}

func listWhole(w *world) {
	s := w.subject(paymentKind, "K1")
	s.begin("A1", 0.02)
	m := s.settlement("A1", effect.Failed, 1)
	m.Row = payments.Outcome{ChargeID: "ch_1", DeclineCode: "insufficient_funds"}
	s.settle(m)
	got := w.list(payments.Query{Limit: 9})
	if len(got) != 1 {
		w.Fatalf("got %d payments, want 1", len(got))
	}
	want := must(w, func(ctx context.Context) (payments.Payment, error) { return w.Payments.Ledger.Payment(ctx, s.id) })
	check(w, "the payment", describePayment(got[0]), describePayment(want))
	check(w, "its decline code", got[0].DeclineCode, "insufficient_funds")
}

func listLimit(w *world) {
	w.paysListed()
	for _, limit := range []int{0, -1} {
		refused(w, fmt.Sprintf("a limit of %d", limit), func(ctx context.Context) ([]payments.Payment, error) {
			return w.Payments.Ledger.Payments(ctx, payments.Query{Limit: limit})
		})
	}
}
