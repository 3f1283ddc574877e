package sim

import (
	"bytes"
	"net/http"

	"github.com/retryproof/retryproof"
)

// What buyers ask, instead of paying once more.

// derivedID is the name of the payment of a key, which its holder can compute.
func derivedID(caller, key string) retryproof.ID {
	return retryproof.Of("pay", retryproof.Scope{Endpoint: "payments", Caller: caller, Key: retryproof.Key(key)})
}

// resolveKey asks what became of a key, so that a key that nothing is known of is void
// from then on.
func resolveKey(b *Buyer, i *Intent, key string) Message {
	return Message{Label: i.Name + " ask", Path: "/payments/resolve", Token: b.Name, Key: key}
}

// lookAtKey reads the payment. Unlike resolveKey it voids nothing: a key that nothing
// is known about stays usable.
func lookAtKey(b *Buyer, i *Intent, key string) Message {
	return Message{Label: i.Name + " look", Method: http.MethodGet, Path: "/payments/" + string(derivedID(b.Name, key)), Token: b.Name}
}

// ask asks what became of the key of a try, and believes the answer.
func (b *Buyer) ask(w *World, p *Process, i *Intent, try int) {
	w.counts.Questions++
	b.believe(w, p, i, b.Question(b, i, b.KeyOf(i, try)))
}

// look asks a ledger that only looks.
func (b *Buyer) look(w *World, p *Process, i *Intent, try int) {
	b.believe(w, p, i, lookAtKey(b, i, b.KeyOf(i, try)))
}

func (b *Buyer) believe(w *World, p *Process, i *Intent, question Message) {
	r, ok := w.Exchange(p, question, b.Timeout)
	switch {
	case !ok || i.Done != "":
	case r.Status == http.StatusNotFound:
		i.renew()
	case r.Status == http.StatusOK:
		text, _ := readPayment(r.Body)
		switch text.State {
		case "VOID":
			i.leaveVoid()
		case "SUCCEEDED", "FAILED":
			i.Done, i.PaymentID = text.State, text.ID
		}
	}
}

func paymentIn(r Reply) string {
	text, _ := readPayment(r.Body) // the auditor reads it too, and says so
	return text.ID
}

// says reports a 409 with a code.
func says(r Reply, code retryproof.Code) bool {
	return r.Status == http.StatusConflict && bytes.Contains(r.Body, []byte(`"code":"`+string(code)+`"`))
}
