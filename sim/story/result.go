package story

import (
	"fmt"
	"strconv"
	"time"
)

// Seconds is a time that prints as a number of seconds.
type Seconds time.Duration

func (s Seconds) float() float64 { return float64(time.Duration(s).Microseconds()) / 1e6 }

// MarshalJSON writes a number: 7200.28.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, s.float(), 'f', -1, 64), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	*s = Seconds(time.Duration(f * float64(time.Second)).Round(time.Microsecond))
	return err
}

// String writes it as people read it: 7,200.28.
func (s Seconds) String() string {
	text := strconv.FormatFloat(s.float(), 'f', -1, 64)
	if f := strconv.FormatFloat(s.float(), 'f', 2, 64); len(f) > len(text) || f == text {
		text = f
	}
	whole, rest := text, ""
	for i := range text {
		if text[i] == '.' {
			whole, rest = text[:i], text[i:]
		}
	}
	return thousands(whole) + rest
}

// thousands groups the digits of a whole number.
func thousands(digits string) string {
	sign := ""
	if digits != "" && digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// amount writes minor units as people read them: 15,000.
func amount(n int64) string { return thousands(strconv.FormatInt(n, 10)) }

// dollars writes minor units as dollars.
func dollars(n int64) string { return fmt.Sprintf("$%s.%02d", amount(n/100), n%100) }

// Result is what came of one branch.
type Result struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Moral string `json:"moral"`
	// OK says that every expectation came out.
	OK            bool             `json:"ok"`
	Charges       []Charge         `json:"charges"`
	ChargedTotal  int64            `json:"charged_total"`
	Credits       []Credit         `json:"credits"`
	Balances      map[string]int64 `json:"balances"`
	Notifications Notifications    `json:"notifications"`
	Screen        []Shown          `json:"screen"`
	Answers       []Answer         `json:"answers"`
	Payments      []Payment        `json:"payments"`
	// Refunds are the rows of refunds, with what the processor made of them.
	Refunds []Refund `json:"refunds,omitempty"`
	// Ends say what stands at the end, where that is no payment.
	Ends  []End  `json:"ends,omitempty"`
	Queue Queue  `json:"queue"`
	Sends []Send `json:"sends"`
	// Fenced counts writes that failed because the owner had changed.
	Fenced    int                  `json:"fenced_writes"`
	Webhooks  []Webhook            `json:"webhooks"`
	Events    []Event              `json:"events"`
	Snapshots map[string]*Snapshot `json:"snapshots"`
	// Ways are the rows of six-ways.
	Ways []Way `json:"ways,omitempty"`
	// IDs maps the story's names to the derived ids.
	IDs []Name `json:"ids"`
	// Harm is the first harm that the simulator's auditor saw, "none" for none.
	Harm   string  `json:"harm"`
	Checks []Check `json:"checks"`
	// Hash names the run; a seed has one.
	Hash string `json:"hash"`

	lines  []line
	lanes  []string
	params Params
}

// Charge is a card that was charged.
type Charge struct {
	ID     string  `json:"id"`
	Key    string  `json:"key"`
	At     Seconds `json:"at"`
	Amount int64   `json:"amount"`
	// Requests counts the requests with the charge's key, replays included.
	Requests int `json:"requests"`
}

// Credit is a posting to a merchant.
type Credit struct {
	Merchant string  `json:"merchant"`
	Amount   int64   `json:"amount"`
	Event    string  `json:"event"`
	At       Seconds `json:"at"`
}

// Notifications is what the phone shows and how often it made a sound.
type Notifications struct {
	Shown  int64 `json:"shown"`
	Alerts int64 `json:"alerts"`
}

// Shown is a notification on the buyer's screen.
type Shown struct {
	ReplaceID string `json:"replace_id"`
	Body      string `json:"body"`
}

// Answer is an answer of the API. At is when the phone sent the request; when the
// network made a copy, when the copy arrived; when the server had held the
// request, when it answered.
type Answer struct {
	Request   string  `json:"request"`
	At        Seconds `json:"at"`
	Status    int     `json:"status"`
	Code      string  `json:"code"`
	BodyState string  `json:"body_state"`
	// From says what answered: "charge", "key record" or "ledger row"; empty for a
	// refusal other than of a void key.
	From string `json:"from"`
	// Lost says that the phone never heard it.
	Lost bool `json:"lost"`
	// Fingerprint is the story's name of the request's meaning: H1, H2.
	Fingerprint string `json:"fingerprint"`
}

// Payment is a row of the ledger at the end, and how it came there.
type Payment struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Moves []Move `json:"moves"`
}

// Move is a state that a payment moved to.
type Move struct {
	At   Seconds `json:"at"`
	From string  `json:"from"`
	To   string  `json:"to"`
	By   string  `json:"by"`
}

// Refund is a row of a refund at the end, and the processor's record of it.
type Refund struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Moves []Move `json:"moves"`
	// PSPID, Key, Amount and At are the processor's; Requests counts the requests with
	// the key. They are empty when it made none.
	PSPID    string  `json:"psp_id"`
	Key      string  `json:"key"`
	Amount   int64   `json:"amount"`
	At       Seconds `json:"at"`
	Requests int     `json:"requests"`
}

// End is what stands at the end: of "post 7, with versions" it is "unliked".
type End struct {
	Of string `json:"of"`
	Is string `json:"is"`
}

// Send is one send of the relay, as the queue took it.
type Send struct {
	At    Seconds `json:"at"`
	Event string  `json:"event"`
	Group string  `json:"group"`
	// New says that it became a message; else the queue knew it.
	New bool `json:"new"`
}

// String is the send as text.
func (s Send) String() string {
	return s.Event + " to " + s.Group + " at " + s.At.String() + map[bool]string{true: ", new", false: ", known"}[s.New]
}

// Webhook is one delivery of the processor's message: "moves", "late" or
// "dropped".
type Webhook struct {
	At     Seconds `json:"at"`
	Result string  `json:"result"`
}

// Queue counts what the queue saw.
type Queue struct {
	// Sends are the sends that the queue accepted, Stored those that became a
	// message, Dropped those that it knew already.
	Sends     int64 `json:"sends"`
	Stored    int64 `json:"stored"`
	Dropped   int64 `json:"dropped"`
	Delivered int64 `json:"delivered"`
	Waiting   int   `json:"waiting"`
}

// Event is one line of the story, numbered from 1.
type Event struct {
	N     int     `json:"n"`
	At    Seconds `json:"at"`
	Where string  `json:"where"`
	What  string  `json:"what"`
}

// Snapshot is what everybody holds at one moment.
type Snapshot struct {
	At            Seconds          `json:"at"`
	Ledger        string           `json:"ledger"`
	KeyRecord     KeyRecord        `json:"key_record"`
	Charges       int              `json:"charges"`
	ChargedTotal  int64            `json:"charged_total"`
	PSPRequests   int              `json:"psp_requests"`
	OutboxRows    int64            `json:"outbox_rows"`
	Queue         Queue            `json:"queue"`
	Sends         []Send           `json:"sends"`
	Credits       int              `json:"credits"`
	Balances      map[string]int64 `json:"balances"`
	Intent        string           `json:"intent"`
	Notifications Notifications    `json:"notifications"`
	PhoneKnows    string           `json:"phone_knows"`
}

// KeyRecord is a record of the key store as a reader sees it.
type KeyRecord struct {
	// State is "absent", "IN_PROGRESS", "COMPLETE" or "VOID"; "unreachable" when the
	// key store is down.
	State string `json:"state"`
	Owner string `json:"owner,omitempty"`
	// Until ends the owner's lease, ExpiresAt the record.
	Until     Seconds `json:"in_progress_until,omitempty"`
	ExpiresAt Seconds `json:"expires_at,omitempty"`
	// Holds is "pointer" or "final answer" once COMPLETE.
	Holds string `json:"holds,omitempty"`
}

// String is the record on one line.
func (k KeyRecord) String() string {
	switch k.State {
	case "IN_PROGRESS":
		return fmt.Sprintf("IN_PROGRESS, owner %s, until %s", k.Owner, k.Until)
	case "COMPLETE":
		return fmt.Sprintf("COMPLETE, %s, expires %s", k.Holds, k.ExpiresAt)
	case "VOID":
		return fmt.Sprintf("VOID, expires %s", k.ExpiresAt)
	}
	return k.State
}

// Way is one row of six-ways: an approach under the same failure.
type Way struct {
	Approach     string   `json:"approach"`
	Charges      []Charge `json:"charges"`
	ChargedTotal int64    `json:"charged_total"`
	// Told is what the buyer was told last, Order whether there is an order.
	Told  string `json:"told"`
	Order bool   `json:"order"`
	// Records counts what an exactly-once log holds.
	Records int `json:"records,omitempty"`
	// Why explains the row.
	Why string `json:"why"`
}

// Name is a name of the story and the derived id behind it.
type Name struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// Check is one expectation: Want was computed from the parameters, Got came out.
type Check struct {
	What string `json:"what"`
	// Given marks a value that the reference gives.
	Given bool   `json:"given"`
	Got   string `json:"got"`
	Want  string `json:"want"`
	OK    bool   `json:"ok"`
}

// checks collects expectations.
type checks []Check

func (c *checks) add(given bool, what string, got, want any) {
	g, w := fmt.Sprint(got), fmt.Sprint(want)
	*c = append(*c, Check{What: what, Given: given, Got: g, Want: w, OK: g == w})
}

// given adds a value that the reference gives, chosen one that was chosen.
func (c *checks) given(what string, got, want any)  { c.add(true, what, got, want) }
func (c *checks) chosen(what string, got, want any) { c.add(false, what, got, want) }

// answer returns the answer to a request, a zero one when there was none.
func (r *Result) answer(request string) Answer {
	for _, a := range r.Answers {
		if a.Request == request {
			return a
		}
	}
	return Answer{}
}

// told writes an answer without its time.
func (a Answer) told() string {
	if a.Status == 0 {
		return "no answer"
	}
	text := strconv.Itoa(a.Status)
	if a.Code != "" {
		text += " " + a.Code
	}
	if a.BodyState != "" {
		text += " " + a.BodyState
	}
	return text
}

// String is the answer with its time.
func (a Answer) String() string { return a.told() + " at " + a.At.String() }

// moments lists when the lines of a kind happened.
func (r *Result) moments(op string) []time.Duration {
	var out []time.Duration
	for _, l := range r.lines {
		if l.op == op {
			out = append(out, l.at)
		}
	}
	return out
}

// moments writes times, separated by blanks.
func moments(list []time.Duration) string {
	text := "never"
	for i, at := range list {
		if i == 0 {
			text = "at"
		}
		text += " " + Seconds(at).String()
	}
	return text
}

// momentsOf lists when the lines of a kind happened in a step.
func (r *Result) momentsOf(tag, op string) []time.Duration {
	var out []time.Duration
	for _, l := range r.lines {
		if l.op == op && l.tag == tag {
			out = append(out, l.at)
		}
	}
	return out
}

// end returns what stands at the end of something, "nothing" when that is not told.
func (r *Result) end(of string) string {
	for _, e := range r.Ends {
		if e.Of == of {
			return e.Is
		}
	}
	return "nothing"
}

// id returns the derived id behind a name.
func (r *Result) id(name string) string {
	for _, n := range r.IDs {
		if n.Name == name {
			return n.ID
		}
	}
	return "none"
}

// payment returns a payment by its display name, a zero one when there is none.
func (r *Result) payment(id string) Payment {
	for _, p := range r.Payments {
		if p.ID == id {
			return p
		}
	}
	return Payment{}
}

// snapshot returns a snapshot, an empty one when it was not taken.
func (r *Result) snapshot(name string) Snapshot {
	if s := r.Snapshots[name]; s != nil {
		return *s
	}
	return Snapshot{Balances: map[string]int64{}}
}

// chargeList writes charges as "ch_1 pay_7:charge 3000 at 0.28".
func chargeList(list []Charge) string {
	text := ""
	for i, c := range list {
		if i > 0 {
			text += ", "
		}
		key := c.Key
		if key == "" {
			key = "without a key"
		}
		text += fmt.Sprintf("%s (%s) %s at %s", c.ID, key, amount(c.Amount), c.At)
	}
	if text == "" {
		return "none"
	}
	return text
}
