package payments

import (
	"net/http"
	"slices"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/outbox"
)

// What a relay could not send and what a worker could not apply is set aside with a
// reason, so that it does not hold back its merchant forever (mission E1, J5). Here a
// person sees it, and puts it back once the cause is mended.

// The places where a message can be set aside, as the API names them.
const (
	parkedOutbox = "outbox"
	parkedInbox  = "inbox"
)

// setAside tells a person, once for each time.
func (s *System) setAside(hop, eventID string) {
	s.deps.Log.Error("a message was set aside: a person must look (GET /operator/parked)", "hop", hop, "event", eventID)
}

// parkedBody is a message that was set aside, as an operator sees it. Its body stays
// in the database: it can be large, and names people.
type parkedBody struct {
	// Hop is "outbox", what a relay could not send, or "inbox", what a worker could
	// not apply.
	Hop string `json:"hop"`
	ID  string `json:"id"`
	// Group is the merchant.
	Group string `json:"group"`
	Type  string `json:"type"`
	// Bytes is the size of the body.
	Bytes    int       `json:"bytes"`
	Attempts int       `json:"attempts"`
	Reason   string    `json:"reason"`
	ParkedAt time.Time `json:"parked_at"`
}

// maxParked bounds the list of what was set aside, of each hop.
const maxParked = 200

// listParked lists what was set aside, the oldest first.
func (s *System) listParked(w http.ResponseWriter, r *http.Request) {
	list := []parkedBody{}
	_, err := s.operator(r)
	var events []outbox.Parked
	if err == nil {
		events, err = s.deps.Store.ParkedEvents.ListParked(r.Context(), outbox.ListParked{Limit: maxParked})
	}
	for _, e := range events {
		list = append(list, parkedBody{Hop: parkedOutbox, ID: e.ID, Group: e.Group, Type: e.Type, Bytes: len(e.Body), Attempts: e.Attempts,
			Reason: e.Reason, ParkedAt: e.ParkedAt})
	}
	var messages []inbox.Parked
	if err == nil {
		messages, err = s.deps.Store.ParkedMessages.ListParked(r.Context(), inbox.ListParked{Consumer: consumerCredit, Limit: maxParked})
	}
	for _, m := range messages {
		list = append(list, parkedBody{Hop: parkedInbox, ID: m.ID, Group: m.Group, Type: m.Type, Bytes: len(m.Body), Attempts: m.Attempts,
			Reason: m.Reason, ParkedAt: m.ParkedAt})
	}
	if err != nil {
		writeError(w, err)
		return
	}
	slices.SortStableFunc(list, func(a, b parkedBody) int { return a.ParkedAt.Compare(b.ParkedAt) })
	writeJSON(w, map[string]any{"parked": list, "limit": maxParked})
}

// redrive puts back what was set aside: a relay sends an event again, and a message is
// applied at once. It is safe to repeat; what is not set aside, or no longer, is 404.
func (s *System) redrive(w http.ResponseWriter, r *http.Request) {
	name, err := s.operator(r)
	hop, id := r.PathValue("hop"), r.PathValue("id")
	if err == nil {
		switch hop {
		case parkedOutbox:
			err = s.redriveEvent(r, id)
		case parkedInbox:
			err = s.redriveMessage(r, id)
		default:
			err = retryproof.Refused(retryproof.CodeNotFound, `a message is set aside at "outbox" or at "inbox"`, nil)
		}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	s.deps.Metrics.Add("retryproof_redrives_total", 1, "hop", hop)
	s.deps.Log.Info("a person put a message back", "hop", hop, "event", id, "by", name)
	writeJSON(w, map[string]string{"hop": hop, "id": id, "status": "put back"})
}

// redriveMessage says, when the message still cannot be applied, that this is about the
// message and not about the request.
func (s *System) redriveMessage(r *http.Request, id string) error {
	err := s.consumer.Redrive(r.Context(), id)
	if retryproof.CodeOf(err) == retryproof.CodeInvalid {
		err = retryproof.Refused(retryproof.CodeInvalid, "the message still cannot be applied and stays set aside: "+err.Error(), err)
	}
	return err
}

func (s *System) redriveEvent(r *http.Request, id string) error {
	was, err := s.deps.Store.Outbox.Redrive(r.Context(), outbox.Redrive{EventID: id, Now: s.deps.Clock.Now()})
	if err == nil && !was {
		err = retryproof.Refused(retryproof.CodeNotFound, "no event of this id was set aside", nil)
	}
	return err
}
