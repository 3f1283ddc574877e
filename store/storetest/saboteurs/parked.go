package saboteurs

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/clock"
	"github.com/retryproof/retryproof/inbox"
	"github.com/retryproof/retryproof/outbox"
	"github.com/retryproof/retryproof/store/storetest"
)

// parkedFaults are wrong about what was set aside.
func parkedFaults() []Saboteur {
	return []Saboteur{
		{"parked-events-skip", "a page of parked events continues behind the time alone", "ParkedEventsAreListedInPages", inParkedEvents(behindTheTime)},
		{"parked-last-wins", "a message that is parked again replaces the first record", "MessageIsParkedOnce", inParked(lastWins)},
		{"parked-by-id-alone", "a message that two consumers set aside is one record", "MessageOfTwoConsumersIsParkedForEach", inParked(byIDAlone)},
		{"parked-joined-by-nothing", "consumer and id are joined without a separator", "MessageOfTwoConsumersIsParkedForEach", inParked(joined)},
		{"parked-texts-only", "a message whose id is no text is refused", "ParkedMessageOfAnyBytesIsKept", inParked(textsOnly)},
		{"parked-body-lost", "only the name of the message is kept", "ParkedMessageIsKeptWhole", inParked(bodyLost)},
		{"parked-for-ever", "Unpark leaves the record", "UnparkedMessageIsGoneAndMayBeParkedAgain", inParked(unparkLeaves)},
		{"parked-of-everybody", "the list does not narrow to a consumer", "ParkedMessagesAreListedInPages", inParked(ofEverybody)},
	}
}

func inParkedEvents(plant func(outbox.ParkedStore) outbox.ParkedStore) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Payments.ParkedEvents = plant(s.Payments.ParkedEvents)
		return s
	}
}

// eventLister is an outbox.ParkedStore that asks for something else.
type eventLister struct {
	outbox.ParkedStore
	change func(*outbox.ListParked)
}

func (e eventLister) ListParked(ctx context.Context, l outbox.ListParked) ([]outbox.Parked, error) {
	e.change(&l)
	return e.ParkedStore.ListParked(ctx, l)
}

func behindTheTime(right outbox.ParkedStore) outbox.ParkedStore {
	return eventLister{right, func(l *outbox.ListParked) {
		if l.After.ID != "" {
			l.After.ID, l.After.ParkedAt = "", l.After.ParkedAt.Add(clock.Precision)
		}
	}}
}

func inParked(plant func(parkedBox) parkedBox) func(storetest.Stores) storetest.Stores {
	return func(s storetest.Stores) storetest.Stores {
		s.Payments.ParkedMessages = plant(parkedBox{ParkedStore: s.Payments.ParkedMessages})
		return s
	}
}

// parkedBox is an inbox.ParkedStore with some methods replaced.
type parkedBox struct {
	inbox.ParkedStore
	park   func(context.Context, inbox.Parked) (bool, error)
	key    func(inbox.ParkedKey) inbox.ParkedKey
	list   func(context.Context, inbox.ListParked) ([]inbox.Parked, error)
	unpark func(context.Context, inbox.ParkedKey) (bool, error)
}

func (b parkedBox) Park(ctx context.Context, p inbox.Parked) (bool, error) {
	if b.park != nil {
		return b.park(ctx, p)
	}
	return b.ParkedStore.Park(ctx, p)
}

func (b parkedBox) Parked(ctx context.Context, k inbox.ParkedKey) (*inbox.Parked, error) {
	if b.key != nil {
		k = b.key(k)
	}
	return b.ParkedStore.Parked(ctx, k)
}

func (b parkedBox) ListParked(ctx context.Context, l inbox.ListParked) ([]inbox.Parked, error) {
	if b.list != nil {
		return b.list(ctx, l)
	}
	return b.ParkedStore.ListParked(ctx, l)
}

func (b parkedBox) Unpark(ctx context.Context, k inbox.ParkedKey) (bool, error) {
	if b.unpark != nil {
		return b.unpark(ctx, k)
	}
	if b.key != nil {
		k = b.key(k)
	}
	return b.ParkedStore.Unpark(ctx, k)
}

func lastWins(b parkedBox) parkedBox {
	b.park = func(ctx context.Context, p inbox.Parked) (bool, error) {
		was, err := b.ParkedStore.Unpark(ctx, p.Key())
		if err != nil {
			return false, err
		}
		_, err = b.ParkedStore.Park(ctx, p)
		return !was, err
	}
	return b
}

func byIDAlone(b parkedBox) parkedBox {
	return keyed(b, func(k inbox.ParkedKey) inbox.ParkedKey { return inbox.ParkedKey{Consumer: "any", ID: k.ID} })
}

func joined(b parkedBox) parkedBox {
	return keyed(b, func(k inbox.ParkedKey) inbox.ParkedKey {
		return inbox.ParkedKey{Consumer: "any", ID: k.Consumer + k.ID}
	})
}

// keyed keeps records under another key.
func keyed(b parkedBox, key func(inbox.ParkedKey) inbox.ParkedKey) parkedBox {
	b.key = key
	b.park = func(ctx context.Context, p inbox.Parked) (bool, error) {
		k := key(p.Key())
		p.Consumer, p.ID = k.Consumer, k.ID
		return b.ParkedStore.Park(ctx, p)
	}
	return b
}

func textsOnly(b parkedBox) parkedBox {
	b.park = func(ctx context.Context, p inbox.Parked) (bool, error) {
		if strings.ContainsRune(p.ID, 0) || !utf8.ValidString(p.ID) {
			return false, retryproof.Refused(retryproof.CodeInvalid, "the id is no text", nil)
		}
		return b.ParkedStore.Park(ctx, p)
	}
	return b
}

func bodyLost(b parkedBox) parkedBox {
	b.park = func(ctx context.Context, p inbox.Parked) (bool, error) {
		p.Body = nil
		return b.ParkedStore.Park(ctx, p)
	}
	return b
}

func unparkLeaves(b parkedBox) parkedBox {
	b.unpark = func(ctx context.Context, k inbox.ParkedKey) (bool, error) {
		p, err := b.ParkedStore.Parked(ctx, k)
		return p != nil, err
	}
	return b
}

func ofEverybody(b parkedBox) parkedBox {
	b.list = func(ctx context.Context, l inbox.ListParked) ([]inbox.Parked, error) {
		l.Consumer = ""
		return b.ParkedStore.ListParked(ctx, l)
	}
	return b
}
