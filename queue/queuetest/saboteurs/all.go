package saboteurs

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/queue"
	"github.com/retryproof/retryproof/queue/memory"
)

// lockedMap is a map that may be used by many at the same time.
type lockedMap[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]V
}

func (l *lockedMap[K, V]) get(k K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.m[k]
	return v, ok
}

func (l *lockedMap[K, V]) put(k K, v V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[K]V{}
	}
	l.m[k] = v
}

func (l *lockedMap[K, V]) putIfAbsent(k K, v V) {
	if _, ok := l.get(k); !ok {
		l.put(k, v)
	}
}

// All returns the saboteurs.
func All() []Saboteur {
	var all []Saboteur
	all = append(all, wrongAboutRepeats()...)
	all = append(all, wrongAboutGroups()...)
	all = append(all, wrongAboutReceipts()...)
	return append(all, wrongAboutMessages()...)
}

func wrongAboutRepeats() []Saboteur {
	return []Saboteur{
		wrapped("no dedup at all", "RepeatIsDroppedAndReportsSuccess", func(q queue.Queue) queue.Queue {
			var n atomic.Int64
			return renamed(q, func(m queue.Message) queue.Message {
				m.ID = fmt.Sprintf("%s#%d", m.ID, n.Add(1))
				return m
			})
		}),
		wrapped("the id is forgotten when the message is finished", "IDIsRememberedAfterFinish", forgetsOnFinish),
		wrapped("repeats extend the window", "WindowStartsAtTheFirstSendAndRepeatsDoNotExtendIt", extendsTheWindow),
		configured("the window is too short", "WindowStartsAtTheFirstSendAndRepeatsDoNotExtendIt", func(c *memory.Config) { c.DedupWindow = c.DedupWindow * 99 / 100 }),
		configured("the window never ends", "WindowStartsAtTheFirstSendAndRepeatsDoNotExtendIt", func(c *memory.Config) { c.DedupWindow *= 1000 }),
		configured("bodies are compared instead of ids", "TheIDAloneDecides", func(c *memory.Config) { c.ContentBasedDedup = true }),
		configured("the id is unique in its group only", "DedupScopeHolds", func(c *memory.Config) { c.DedupScope = memory.PerGroup }),
		wrapped("a repeat is an error", "RepeatIsDroppedAndReportsSuccess", func(q queue.Queue) queue.Queue {
			var seen lockedMap[string, bool]
			return &hooks{Queue: q, send: func(ctx context.Context, m queue.Message) error {
				if _, ok := seen.get(m.ID); ok {
					return retryproof.Refused(retryproof.CodeConflict, "seen before", nil)
				}
				err := q.Send(ctx, m)
				if err == nil {
					seen.put(m.ID, true)
				}
				return err
			}}
		}),
		wrapped("the id is noted before the message is stored", "TooLargeIsRefusedForGoodAndNotesNoID", func(q queue.Queue) queue.Queue {
			var noted lockedMap[string, bool]
			return &hooks{Queue: q, send: func(ctx context.Context, m queue.Message) error {
				if _, ok := noted.get(m.ID); ok && len(m.Body) < TooLargeBytes {
					return nil
				}
				err := q.Send(ctx, m)
				if err != nil {
					noted.put(m.ID, true)
				}
				return err
			}}
		}),
	}
}

func forgetsOnFinish(q queue.Queue) queue.Queue {
	var lives lockedMap[string, int]
	h := renamed(q, func(m queue.Message) queue.Message {
		n, _ := lives.get(m.ID)
		m.ID = fmt.Sprintf("%s#%d", m.ID, n)
		return m
	})
	h.finish = func(ctx context.Context, d queue.Delivery) (bool, error) {
		n, _ := lives.get(d.ID)
		lives.put(d.ID, n+1)
		return q.Finish(ctx, d)
	}
	return h
}

// extendsTheWindow lets an id in again only after a send of it that was not
// preceded by another one for a long time, which no case waits for.
func extendsTheWindow(q queue.Queue) queue.Queue {
	var sends lockedMap[string, int]
	return &hooks{Queue: q, send: func(ctx context.Context, m queue.Message) error {
		n, _ := sends.get(m.ID)
		if m.ID != "" {
			sends.put(m.ID, n+1)
		}
		if n >= 3 {
			return nil
		}
		return q.Send(ctx, m)
	}}
}

func wrongAboutGroups() []Saboteur {
	return []Saboteur{
		wrapped("groups are ignored", "GroupKeepsItsOrderUnderRedelivery", func(q queue.Queue) queue.Queue {
			return renamed(q, func(m queue.Message) queue.Message {
				m.Group = "of " + m.ID
				return m
			})
		}),
		wrapped("one message blocks all groups", "OtherGroupsGoOnWhileOneIsBlocked", func(q queue.Queue) queue.Queue {
			return renamed(q, func(m queue.Message) queue.Message {
				m.Group = "all"
				return m
			})
		}),
		wrapped("a delayed message blocks all groups", "RetryDelaysNoOtherGroup", func(q queue.Queue) queue.Queue {
			var paused atomic.Bool
			return &hooks{
				Queue: q,
				receive: func(ctx context.Context, limit int) ([]queue.Delivery, error) {
					if paused.Load() {
						return nil, nil
					}
					return q.Receive(ctx, limit)
				},
				retry: func(ctx context.Context, d queue.Delivery, delay time.Duration) error {
					paused.Store(delay >= time.Minute)
					return q.Retry(ctx, d, delay)
				},
			}
		}),
		wrapped("a retried message goes to the end of its group", "GroupKeepsItsOrderUnderRedelivery", func(q queue.Queue) queue.Queue {
			var n atomic.Int64
			var names lockedMap[string, string]
			return &hooks{
				Queue: q,
				receive: func(ctx context.Context, limit int) ([]queue.Delivery, error) {
					ds, err := q.Receive(ctx, limit)
					for i, d := range ds {
						if id, ok := names.get(d.ID); ok {
							ds[i].ID = id
						}
					}
					return ds, err
				},
				retry: func(ctx context.Context, d queue.Delivery, _ time.Duration) error {
					again := d.Message
					again.ID = fmt.Sprintf("%s again %d", d.ID, n.Add(1))
					names.put(again.ID, d.ID)
					if _, err := q.Finish(ctx, d); err != nil {
						return err
					}
					return q.Send(ctx, again)
				},
			}
		}),
		wrapped("groups with alike names are one", "OddNamesStayApart", onSend(func(m *queue.Message) {
			m.Group = strings.ReplaceAll(m.Group, ".", "_")
		})),
		wrapped("ids are trimmed", "OddNamesStayApart", onSend(func(m *queue.Message) { m.ID = strings.TrimSpace(m.ID) })),
		wrapped("the second message of a group is delivered beside the first", "OneOfAGroupAtATime", deliversTheNextToo),
	}
}

// deliversTheNextToo takes one message of a group ahead of time.
func deliversTheNextToo(q queue.Queue) queue.Queue {
	return &hooks{Queue: q, receive: func(ctx context.Context, limit int) ([]queue.Delivery, error) {
		ds, err := q.Receive(ctx, limit)
		if err != nil || len(ds) != 1 || limit < 2 {
			return ds, err
		}
		if _, err := q.Finish(ctx, ds[0]); err != nil {
			return nil, err
		}
		more, err := q.Receive(ctx, 1)
		return append(ds, more...), err
	}}
}

func wrongAboutReceipts() []Saboteur {
	return []Saboteur{
		configured("an unfinished message never comes again", "UnfinishedMessageComesAgainAfterTheTimeout", func(c *memory.Config) { c.Visibility *= 1000 }),
		configured("an unfinished message comes again too early", "UnfinishedMessageComesAgainAfterTheTimeout", func(c *memory.Config) { c.Visibility = c.Visibility * 9 / 10 }),
		wrapped("a stale receipt finishes the message", "StaleReceiptChangesNothing", func(q queue.Queue) queue.Queue {
			h := newest(q)
			h.hooks.finish = func(ctx context.Context, d queue.Delivery) (bool, error) { return q.Finish(ctx, h.of(d)) }
			return h
		}),
		wrapped("a finish that changed nothing says that it deleted", "StaleReceiptChangesNothing", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, finish: func(ctx context.Context, d queue.Delivery) (bool, error) {
				_, err := q.Finish(ctx, d)
				return err == nil, err
			}}
		}),
		wrapped("every finish of a delivery says that it deleted", "UsedReceiptChangesNothing", func(q queue.Queue) queue.Queue {
			var deleted lockedMap[string, bool]
			return &hooks{Queue: q, finish: func(ctx context.Context, d queue.Delivery) (bool, error) {
				ok, err := q.Finish(ctx, d)
				if ok {
					deleted.put(d.Receipt, true)
				}
				before, _ := deleted.get(d.Receipt)
				return before, err
			}}
		}),
		wrapped("a finish never says that it deleted", "FinishedMessageNeverComesAgain", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, finish: func(ctx context.Context, d queue.Delivery) (bool, error) {
				_, err := q.Finish(ctx, d)
				return false, err
			}}
		}),
		wrapped("a stale receipt makes the message due", "StaleReceiptChangesNothing", func(q queue.Queue) queue.Queue {
			h := newest(q)
			h.hooks.retry = func(ctx context.Context, d queue.Delivery, delay time.Duration) error {
				return q.Retry(ctx, h.of(d), delay)
			}
			return h
		}),
		wrapped("a used receipt is an error", "UsedReceiptChangesNothing", func(q queue.Queue) queue.Queue {
			var used lockedMap[string, bool]
			return &hooks{Queue: q, finish: func(ctx context.Context, d queue.Delivery) (bool, error) {
				if _, ok := used.get(d.Receipt); ok {
					return false, retryproof.Refused(retryproof.CodeNotFound, "no such receipt", nil)
				}
				used.put(d.Receipt, true)
				return q.Finish(ctx, d)
			}}
		}),
		wrapped("finish does nothing", "FinishedMessageNeverComesAgain", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, finish: func(context.Context, queue.Delivery) (bool, error) { return true, nil }}
		}),
		wrapped("retry ignores the delay", "RetryDelaysTheGroup", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, retry: func(ctx context.Context, d queue.Delivery, _ time.Duration) error {
				return q.Retry(ctx, d, 0)
			}}
		}),
		wrapped("retry waits for the timeout", "RetryWithoutDelayIsDueAtOnce", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, retry: func(context.Context, queue.Delivery, time.Duration) error { return nil }}
		}),
		wrapped("the delay of a retry ends with the timeout", "RetryDelaysTheGroup", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, retry: func(ctx context.Context, d queue.Delivery, delay time.Duration) error {
				return q.Retry(ctx, d, min(delay, time.Second))
			}}
		}),
		wrapped("the attempt is always the first", "AttemptCountsDeliveries", onReceive(func(d *queue.Delivery) { d.Attempt = 1 })),
	}
}

// latest remembers the newest receipt of every message.
type latest struct {
	*hooks
	receipts lockedMap[string, string]
}

func newest(q queue.Queue) *latest {
	h := &latest{hooks: &hooks{Queue: q}}
	h.hooks.receive = func(ctx context.Context, limit int) ([]queue.Delivery, error) {
		ds, err := q.Receive(ctx, limit)
		for _, d := range ds {
			h.receipts.put(d.ID, d.Receipt)
		}
		return ds, err
	}
	return h
}

func (l *latest) of(d queue.Delivery) queue.Delivery {
	d.Receipt, _ = l.receipts.get(d.ID)
	return d
}

func wrongAboutMessages() []Saboteur {
	return []Saboteur{
		wrapped("an acked message is lost when its group is busy", "GroupKeepsItsOrder", func(q queue.Queue) queue.Queue {
			var busy lockedMap[string, int]
			return &hooks{Queue: q, send: func(ctx context.Context, m queue.Message) error {
				n, _ := busy.get(m.Group)
				busy.put(m.Group, n+1)
				if n == 10 {
					return nil
				}
				return q.Send(ctx, m)
			}}
		}),
		wrapped("white space around a body is lost", "BodiesArriveByteForByte", onSend(func(m *queue.Message) { m.Body = bytes.TrimSpace(m.Body) })),
		wrapped("a body must be text", "BodiesArriveByteForByte", onSend(func(m *queue.Message) { m.Body = bytes.ToValidUTF8(m.Body, []byte("?")) })),
		wrapped("the sender's buffer is kept", "BodiesArriveByteForByte", keepsTheBuffer),
		wrapped("the type is lost", "AckedSendIsDelivered", onReceive(func(d *queue.Delivery) { d.Type = "" })),
		wrapped("the limit is ignored", "ReceiveKeepsTheLimit", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, receive: func(ctx context.Context, limit int) ([]queue.Delivery, error) {
				return q.Receive(ctx, 2*limit)
			}}
		}),
		wrapped("too large is cut", "TooLargeIsRefusedForGoodAndNotesNoID", onSend(func(m *queue.Message) { m.Body = m.Body[:min(len(m.Body), TooLargeBytes-1)] })),
		wrapped("too large is unknown", "TooLargeIsRefusedForGoodAndNotesNoID", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, send: func(ctx context.Context, m queue.Message) error {
				if err := q.Send(ctx, m); err != nil {
					return fmt.Errorf("send: %v", err)
				}
				return nil
			}}
		}),
		wrapped("a nameless message is taken", "NamelessMessageIsRefusedForGood", onSend(func(m *queue.Message) {
			if m.Group == "" {
				m.Group = "none"
			}
		})),
		wrapped("a receive whose context ended takes messages with it", "EndedContextLosesNothing", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, receive: func(ctx context.Context, limit int) ([]queue.Delivery, error) {
				ds, err := q.Receive(context.WithoutCancel(ctx), limit)
				if ctx.Err() != nil {
					return nil, err
				}
				return ds, err
			}}
		}),
		wrapped("nothing due is an error", "NothingDueIsNoError", func(q queue.Queue) queue.Queue {
			return &hooks{Queue: q, receive: func(ctx context.Context, limit int) ([]queue.Delivery, error) {
				ds, err := q.Receive(ctx, limit)
				if err == nil && len(ds) == 0 {
					err = retryproof.Refused(retryproof.CodeNotFound, "nothing is due", nil)
				}
				return ds, err
			}}
		}),
	}
}

// keepsTheBuffer stores the sender's slice instead of its bytes.
func keepsTheBuffer(q queue.Queue) queue.Queue {
	var lent lockedMap[string, []byte]
	return &hooks{
		Queue: q,
		send: func(ctx context.Context, m queue.Message) error {
			lent.putIfAbsent(m.ID, m.Body)
			return q.Send(ctx, m)
		},
		receive: func(ctx context.Context, limit int) ([]queue.Delivery, error) {
			ds, err := q.Receive(ctx, limit)
			for i := range ds {
				ds[i].Body, _ = lent.get(ds[i].ID)
			}
			return ds, err
		},
	}
}
