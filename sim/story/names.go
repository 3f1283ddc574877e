package story

import (
	"fmt"
	"strings"

	"github.com/retryproof/retryproof/psp/emulator"
)

// names gives derived ids the names of the story, in the order in which they
// appear: pay_7, then pay_9 for a second payment.
type names struct {
	known   []Name
	hidden  []Name // other ids of the same things
	charges int
	refunds int
	// second says that there are two keys.
	second       bool
	fingerprints []string
}

var paymentNames = []string{"pay_7", "pay_9", "pay_11", "pay_13"}

func (n *names) find(id string) string {
	for _, list := range [][]Name{n.known, n.hidden} {
		for _, k := range list {
			if k.ID == id {
				return k.Name
			}
		}
	}
	return ""
}

// payment names a payment and its event.
func (n *names) payment(id string) string {
	if name := n.find(id); name != "" {
		return name
	}
	count := 0
	for _, k := range n.known {
		if strings.HasPrefix(k.Name, "pay_") && !strings.Contains(k.Name, ":") {
			count++
		}
	}
	name := fmt.Sprintf("pay_%d", 7+2*count)
	if count < len(paymentNames) {
		name = paymentNames[count]
	}
	event := "ev_" + strings.TrimPrefix(name, "pay_")
	n.known = append(n.known, Name{event, id + ":SUCCEEDED"}, Name{name, id})
	return name
}

// charge names a charge and its PaymentIntent.
func (n *names) charge(c emulator.ChargeRecord) string {
	if name := n.find(c.ID); name != "" {
		return name
	}
	n.charges++
	name := fmt.Sprintf("ch_%d", n.charges)
	n.known = append(n.known, Name{name, c.ID})
	n.hidden = append(n.hidden, Name{name, c.Intent})
	return name
}

// refund names a refund of the processor.
func (n *names) refund(id string) string {
	if name := n.find(id); name != "" {
		return name
	}
	n.refunds++
	name := fmt.Sprintf("re_%d", n.refunds)
	n.known = append(n.known, Name{name, id})
	return name
}

// other names something else that has a derived id.
func (n *names) other(name, id string) { n.known = append(n.known, Name{name, id}) }

// fingerprint names a request's meaning: H1, H2.
func (n *names) fingerprint(f string) string {
	for i, known := range n.fingerprints {
		if known == f {
			return fmt.Sprintf("H%d", i+1)
		}
	}
	n.fingerprints = append(n.fingerprints, f)
	return fmt.Sprintf("H%d", len(n.fingerprints))
}

// show replaces derived ids in a text by the story's names.
func (n *names) show(text string) string {
	for _, k := range n.known {
		text = strings.ReplaceAll(text, k.ID, k.Name)
	}
	return text
}

// list is the ID chain: what the client's key, the payment, the charge and the
// event are called here, and what they are.
func (n *names) list() []Name {
	out := []Name{}
	for _, k := range n.known {
		if strings.HasPrefix(k.Name, "pay_") {
			out = append(out, k, Name{k.Name + ":charge", k.ID + ":charge"})
		}
	}
	for _, k := range n.known {
		if !strings.HasPrefix(k.Name, "pay_") {
			out = append(out, k)
		}
	}
	if n.second {
		out = append([]Name{{"K2", keyK2}}, out...)
	}
	return append([]Name{{"K1", keyK1}}, out...)
}
