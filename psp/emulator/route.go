package emulator

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// route is one endpoint. parse judges the parameters alone; read answers; execute
// fills the record and names the webhooks that are due before the answer. All are
// called under the lock.
type route struct {
	operation Operation
	write     bool
	id        string
	parse     func(*Core, *call) (*form, *failure)
	read      func(*Core, *call, time.Time) ([]byte, *failure)
	execute   func(*Core, *call, *writeRecord, time.Time) ([]string, *failure)
}

var (
	createParams = []string{
		"amount", "currency", "payment_method", "confirm", "metadata", "description", "expand", "payment_method_types",
		"automatic_payment_methods", "off_session", "error_on_requires_action", "return_url", "receipt_email",
		"statement_descriptor_suffix",
	}
	confirmParams = []string{"payment_method", "expand", "off_session", "error_on_requires_action", "return_url", "receipt_email"}
	refundParams  = []string{"payment_intent", "charge", "amount", "reason", "metadata", "expand"}
	listParams    = []string{"limit", "starting_after", "ending_before", "created", "expand"}
	searchParams  = []string{"query", "limit", "page", "expand"}

	refundListParams = append([]string{"payment_intent", "charge"}, listParams...)
)

// routes are the endpoints, the first match first; "*" is an id.
var routes = []struct {
	method, path string
	route        route
}{
	{http.MethodPost, "payment_intents", route{operation: OperationCharge, write: true, parse: parseCreate, execute: executeCreate}},
	{http.MethodGet, "payment_intents", route{operation: OperationRetrieve, parse: parseOnly(listParams), read: listIntents}},
	{http.MethodGet, "payment_intents/search", route{operation: OperationSearch, parse: parseOnly(searchParams), read: searchIntents}},
	{http.MethodGet, "payment_intents/*", route{operation: OperationRetrieve, parse: parseOnly([]string{"expand"}), read: readIntent}},
	{http.MethodPost, "payment_intents/*/confirm", route{operation: OperationCharge, write: true, parse: parseConfirm, execute: executeConfirm}},
	{http.MethodPost, "refunds", route{operation: OperationRefund, write: true, parse: parseRefund, execute: executeRefund}},
	{http.MethodGet, "refunds", route{operation: OperationRetrieve, parse: parseOnly(refundListParams), read: listRefunds}},
	{http.MethodGet, "refunds/*", route{operation: OperationRetrieve, parse: parseOnly(nil), read: readRefund}},
}

// patterns are the segments of the routes' paths.
var patterns = func() (all [][]string) {
	for _, r := range routes {
		all = append(all, strings.Split(r.path, "/"))
	}
	return all
}()

func findRoute(r Request) (route, *failure) {
	path, ok := strings.CutPrefix(r.Path, "/v1/")
	segments := strings.Split(path, "/")
	if !ok || slices.Contains(segments, "") {
		return route{}, unknownRoute(r)
	}
	for i, known := range routes {
		pattern := patterns[i]
		if known.method != r.Method || len(pattern) != len(segments) {
			continue
		}
		found, fits := known.route, true
		for i, p := range pattern {
			if p != "*" {
				fits = fits && p == segments[i]
				continue
			}
			id, err := url.PathUnescape(segments[i])
			found.id, fits = id, fits && err == nil
		}
		if fits {
			return found, nil
		}
	}
	return route{}, unknownRoute(r)
}

func unknownRoute(r Request) *failure {
	return &failure{404, errorJSON{
		Type:    "invalid_request_error",
		Message: "Unrecognized request URL (" + strconv.QuoteToASCII(r.Method+" "+r.Path) + "): this emulator does not know it.",
	}}
}

func parseOnly(allowed []string) func(*Core, *call) (*form, *failure) {
	return func(_ *Core, k *call) (*form, *failure) { return parseForm(k.Form, allowed...) }
}

func readIntent(c *Core, k *call, now time.Time) ([]byte, *failure) {
	i := c.intents[k.route.id]
	if i == nil {
		return nil, missing("payment_intent", k.route.id, "intent")
	}
	return encode(i.render(now, k.form.wantsCharge())), nil
}

// matchesCreated applies the created filter, in whole seconds as Stripe does.
func (f *form) matchesCreated(at time.Time) bool {
	for _, op := range []string{"", "gt", "gte", "lt", "lte"} {
		s, given := f.created[op]
		if !given {
			continue
		}
		bound, _ := strconv.ParseInt(s, 10, 64) // parseForm has checked it
		created := at.Unix()
		ok := map[string]bool{"": created == bound, "gt": created > bound, "gte": created >= bound, "lt": created < bound, "lte": created <= bound}[op]
		if !ok {
			return false
		}
	}
	return true
}

func listIntents(c *Core, k *call, now time.Time) ([]byte, *failure) {
	var found []numbered
	for _, n := range c.intentOrder {
		if k.form.matchesCreated(c.intents[n.id].Created) {
			found = append(found, n)
		}
	}
	numberOf := func(id string) (int64, bool) {
		i := c.intents[id]
		if i == nil {
			return 0, false
		}
		return i.Seq, true
	}
	return page(k, found, "payment_intent", numberOf, func(id string) any { return c.intents[id].render(now, k.form.wantsCharge()) })
}

// page renders one page of a listing, newest first. found is oldest first. A cursor is
// any object that there is, numberOf its place, also one that the filters leave out.
func page(k *call, found []numbered, kind string, numberOf func(id string) (int64, bool), render func(id string) any) ([]byte, *failure) {
	limit, fail := k.form.limit()
	if fail != nil {
		return nil, fail
	}
	slices.Reverse(found)
	after, before := k.form.values["starting_after"], k.form.values["ending_before"]
	if after != "" && before != "" {
		return nil, invalid("", "ending_before", "Give starting_after or ending_before, not both.")
	}
	more := false
	if cursor := after + before; cursor != "" {
		seq, ok := numberOf(cursor)
		if !ok {
			param := "starting_after"
			if before != "" {
				param = "ending_before"
			}
			return nil, missing(kind, cursor, param)
		}
		newer := slices.IndexFunc(found, func(n numbered) bool { return n.seq <= seq }) // how many there are
		if newer < 0 {
			newer = len(found)
		}
		if before != "" {
			from := max(0, newer-limit)
			found, more = found[from:newer], from > 0
		} else {
			found = slices.DeleteFunc(found[newer:], func(n numbered) bool { return n.seq == seq })
		}
	}
	if len(found) > limit {
		found, more = found[:limit], true
	}
	out := listJSON{Object: "list", Data: []any{}, HasMore: more, URL: k.Path}
	for _, n := range found {
		out.Data = append(out.Data, render(n.id))
	}
	return encode(out), nil
}

func searchIntents(c *Core, k *call, now time.Time) ([]byte, *failure) {
	clauses, err := parseQuery(k.form.values["query"])
	if err != nil {
		return nil, invalid("", "query", "The search query cannot be read: "+err.Error()+".")
	}
	limit, fail := k.form.limit()
	if fail != nil {
		return nil, fail
	}
	below := int64(-1) // the page token is the number of the last one shown
	if token, given := k.form.values["page"]; given {
		n, err := strconv.ParseInt(token, 10, 64)
		if err != nil || n < 0 {
			return nil, invalid("", "page", "The page is not one that a search has given.")
		}
		below = n
	}
	candidates := c.intentOrder
	for _, cl := range clauses {
		if cl.metadata && cl.field == referenceKey && cl.value != "" {
			candidates = c.byReference[cl.value]
		}
	}
	out := listJSON{Object: "search_result", Data: []any{}, URL: k.Path}
	for at := len(candidates) - 1; at >= 0; at-- {
		number, i := candidates[at].seq, c.intents[candidates[at].id]
		if (below >= 0 && number >= below) || i.Created.Add(c.cfg.SearchLag).After(now) || !i.matches(clauses, now) {
			continue
		}
		if len(out.Data) == limit {
			out.HasMore = true
			break
		}
		out.Data = append(out.Data, i.render(now, k.form.wantsCharge()))
		token := strconv.FormatInt(number, 10)
		out.NextPage = &token
	}
	if !out.HasMore {
		out.NextPage = nil
	}
	return encode(out), nil
}

func (i *intent) matches(clauses []clause, now time.Time) bool {
	for _, c := range clauses {
		got := i.status(now)
		if c.metadata {
			got = i.Metadata[c.field]
		}
		if got != c.value {
			return false
		}
	}
	return true
}
