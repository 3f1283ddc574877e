package sim

import (
	"fmt"
	"strings"
)

// Twins are the rules that can be switched off, in the order of a payment's way
// through the system.
func Twins() []Twin {
	return []Twin{
		keyPerAttempt(), keyAlone(), noFingerprint(), noGuard(), rowAfterwards(), keyPerCall(), timeoutIsFailure(), storedPointer(),
		noOwnerCheck(), blindTakeover(), leaseIsALock(), lateOriginal(), onlyLooks(), unconditionalMoves(), lostCommitIsFailure(), endlessKeyMemory(), refundKeyPerCall(),
		publishBeside(), idPerSend(), deleteWhenSendReturns(), noInbox(), markedApart(), onlyAcknowledged(), pushEveryDelivery(), noReplaceID(),
		laggingReads(),
	}
}

// Rules are the names of the rules that can be switched off, in Twins' order.
func Rules() []string {
	var names []string
	for _, t := range Twins() {
		names = append(names, t.Rule)
	}
	return names
}

// TwinOf returns the twin of a rule; the error lists the rules.
func TwinOf(rule string) (Twin, error) {
	for _, t := range Twins() {
		if t.Rule == rule {
			return t, nil
		}
	}
	for _, n := range NotBuilt() {
		if n.Rule == rule {
			return Twin{}, fmt.Errorf("rule %q cannot be switched off yet: %s", rule, n.Because)
		}
	}
	return Twin{}, fmt.Errorf("there is no rule %q; the rules are %s", rule, strings.Join(Rules(), ", "))
}

// Missing is a rule that cannot be switched off yet.
type Missing struct {
	Rule, Because string
}

// NotBuilt lists the rules without a twin, with the reason.
func NotBuilt() []Missing {
	const (
		noStream  = "the stream job is not built"
		oneRegion = "there is one Region"
	)
	return []Missing{
		{"full-flush", noStream}, {"barrier-tag", noStream}, {"checkpointed-dedup", noStream}, {"watermark-floor", noStream}, {"event-time-expiry", noStream},
		{"home-region", oneRegion}, {"derived-event-id", oneRegion}, {"region-free-key", oneRegion},
	}
}
