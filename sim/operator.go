package sim

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/retryproof/retryproof/effect"
	"github.com/retryproof/retryproof/psp/emulator"
)

// The operator is a person who looks at the processor's own records and gives right
// verdicts: of what is charged at once, also while faults are on; of what nobody can
// prove when all is quiet and somebody was told of it.

const operatorToken = "operator-alice"

func operatorOf(token string) (string, bool) { return "alice", token == operatorToken }

// quietAfter is when nothing of before the end of the faults can be on its way any
// more.
const quietAfter = 3 * time.Minute

func (w *World) startOperator() {
	w.operated = true
	p := NewProcess(w.Scheduler, "operator", 0, 0)
	w.processes = append(w.processes, p)
	w.Go(p, w.upTo(10*time.Second), func() {
		for {
			if w.audit.anyUnknown() || w.rand.IntN(8) == 0 { // somebody tells them
				w.decideOpen(p)
			}
			pause := 3 * time.Second
			if w.healed {
				pause = 30 * time.Second
			}
			_ = w.wait(nil, pause)
		}
	})
}

// openItem is one entry of GET /operator/unknown.
type openItem struct {
	ID        string       `json:"id"`
	PaymentID string       `json:"payment_id"`
	Kind      string       `json:"kind"`
	State     effect.State `json:"state"`
}

func (w *World) decideOpen(p *Process) {
	r, ok := w.Exchange(p, Message{Label: "operator list", Method: http.MethodGet, Path: "/operator/unknown", Token: operatorToken}, 10*time.Second)
	var list struct {
		Unknown []openItem `json:"unknown"`
	}
	if !ok || r.Status != http.StatusOK || json.Unmarshal(r.Body, &list) != nil {
		return
	}
	for _, o := range list.Unknown {
		if o.State != effect.Unknown {
			continue
		}
		path := "/operator/payments/" + o.PaymentID
		if o.Kind == "refund" {
			path += "/refunds/" + o.ID
		}
		v, decided := w.verdict(o)
		if !decided {
			continue
		}
		body, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings
		}
		r, ok := w.Exchange(p, Message{Label: "operator verdict", Path: path + "/verdict", Token: operatorToken, Body: body}, 10*time.Second)
		if ok && r.Status == http.StatusConflict {
			w.counts.VerdictsMoved++
		}
	}
}

// verdictText is the body of a verdict.
type verdictText struct {
	State     effect.State `json:"state"`
	Reference string       `json:"reference,omitempty"`
	Reason    string       `json:"reason"`
}

// verdict is what the processor's records say of an unknown, if anything.
func (w *World) verdict(o openItem) (verdictText, bool) {
	if o.Kind == "refund" {
		all := w.core.Refunds()
		if at := slices.IndexFunc(all, func(r emulator.RefundRecord) bool { return r.Reference == o.ID }); at >= 0 {
			switch all[at].Status {
			case "succeeded":
				return verdictText{effect.Succeeded, all[at].ID, "the processor's page shows it"}, true
			case "failed":
				return verdictText{effect.Failed, all[at].ID, "the processor's page shows that it failed"}, true
			}
			return verdictText{}, false
		}
	} else {
		all := w.core.Charges()
		if at := slices.IndexFunc(all, func(c emulator.ChargeRecord) bool { return c.Reference == o.ID }); at >= 0 {
			return verdictText{effect.Succeeded, all[at].Intent, "the processor's page shows it"}, true
		}
	}
	if !w.healed || w.now < w.healedAt+quietAfter || !w.audit.unprovable(w.audit.byID[o.ID]) || !w.audit.alerted(w.audit.byID[o.ID]) {
		return verdictText{}, false
	}
	state := effect.Void
	if w.rand.IntN(2) == 0 {
		state = effect.Failed
	}
	return verdictText{State: state, Reason: "the processor keeps an error for it and holds nothing"}, true
}
