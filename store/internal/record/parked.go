package record

import (
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/inbox"
)

// ParkedColumns are the columns of inbox_parked, in the order of ParkedArgs. What came
// from the queue is kept as bytes: a message that cannot be applied may be any.
const ParkedColumns = "digest, consumer, message_id, group_key, type, body, sent_at, attempts, reason, parked_at"

// ParkedDigest is the primary key: one size for every id, which an index takes.
func ParkedDigest(k inbox.ParkedKey) string {
	return string(retryproof.FingerprintOf(retryproof.Text("consumer", k.Consumer), retryproof.Text("id", k.ID)))
}

// ParkedArgs are the values of ParkedColumns.
func ParkedArgs(p inbox.Parked) []any {
	return []any{ParkedDigest(p.Key()), []byte(p.Consumer), []byte(p.ID), []byte(p.Group), []byte(p.Type), append([]byte{}, p.Body...),
		Micros(p.SentAt), int64(p.Attempts), p.Reason, Micros(p.ParkedAt)}
}

// ParkedScan reads ParkedColumns.
type ParkedScan struct {
	digest, reason                 string
	consumer, id, group, typ, body []byte
	sent, attempts, parked         int64
}

// Dest are the destinations for a row.
func (s *ParkedScan) Dest() []any {
	return []any{&s.digest, &s.consumer, &s.id, &s.group, &s.typ, &s.body, &s.sent, &s.attempts, &s.reason, &s.parked}
}

// Parked is what was read.
func (s *ParkedScan) Parked() inbox.Parked {
	p := inbox.Parked{Consumer: string(s.consumer), SentAt: time.UnixMicro(s.sent).UTC(), Attempts: int(s.attempts), Reason: s.reason,
		ParkedAt: time.UnixMicro(s.parked).UTC()}
	p.ID, p.Group, p.Type, p.Body = string(s.id), string(s.group), string(s.typ), s.body
	if len(p.Body) == 0 {
		p.Body = nil
	}
	return p
}

// ParkedAfter are the values of (parked_at, consumer, message_id) behind which a list
// continues.
func ParkedAfter(after inbox.Parked) []any {
	return []any{Micros(after.ParkedAt), []byte(after.Consumer), []byte(after.ID)}
}
