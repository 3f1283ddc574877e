package nats

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retryproof/retryproof"
)

func TestValidateNamesAllProblems(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero value: got %v, want nil", err)
	}
	err := Config{Stream: "a.b", Subject: "a..b", Partitions: -1, DedupWindow: 1, Visibility: 1, MaxWait: time.Hour, Replicas: 9}.Validate()
	for _, want := range []string{"Stream", "Subject", "Partitions", "DedupWindow", "Visibility", "MaxWait", "Replicas"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}

func TestStreamOfThisDriverIsAccepted(t *testing.T) {
	t.Parallel()
	want := Config{}.withDefaults().streamConfig()
	if err := verifyStream(want, want); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestStreamThatBreaksOnePromiseIsRefused(t *testing.T) {
	t.Parallel()
	want := Config{}.withDefaults().streamConfig()
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"storage":              func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"persist_mode":         func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"no_ack":               func(c *jetstream.StreamConfig) { c.NoAck = true },
		"retention":            func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"duplicate_window":     func(c *jetstream.StreamConfig) { c.Duplicates = time.Minute },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"discard":              func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 1<<20, jetstream.DiscardOld },
		"num_replicas":         func(c *jetstream.StreamConfig) { c.Replicas = 0 },
		"deny_purge":           func(c *jetstream.StreamConfig) { c.DenyPurge = true },
		"copies from others":   func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{Name: "x"} },
		"subjects":             func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.*"} },
		"subject_transform":    func(c *jetstream.StreamConfig) { c.SubjectTransform = nil },
		"number of partitions": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = Config{Partitions: 4}.withDefaults().streamConfig().SubjectTransform
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := want
			change(&got)
			if err := verifyStream(got, want); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want it to name %s", err, name)
			}
		})
	}
}

func TestConsumerThatBreaksOnePromiseIsRefused(t *testing.T) {
	t.Parallel()
	want := Config{}.withDefaults().consumerConfig(3)
	if err := verifyConsumer(want, want); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	for name, change := range map[string]func(*jetstream.ConsumerConfig){
		"filter_subject":     func(c *jetstream.ConsumerConfig) { c.FilterSubject = ">" },
		"deliver_policy":     func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverNewPolicy },
		"ack_policy":         func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy },
		"ack_wait":           func(c *jetstream.ConsumerConfig) { c.AckWait = time.Hour },
		"max_ack_pending":    func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 2 },
		"max_deliver":        func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 },
		"backoff":            func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{time.Second} },
		"inactive_threshold": func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour },
		"headers_only":       func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
		"mem_storage":        func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := want
			change(&got)
			if err := verifyConsumer(got, want); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want it to name %s", err, name)
			}
		})
	}
}

func TestErrorsOfASendSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	api := func(code jetstream.ErrorCode) error {
		return fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: code})
	}
	for _, tt := range []struct {
		name    string
		err     error
		outcome retryproof.Outcome
		code    retryproof.Code
	}{
		{"taken", nil, retryproof.Done, ""},
		{"too large for the server", natsgo.ErrMaxPayload, retryproof.NotDone, retryproof.CodePermanent},
		{"too large for the stream", api(jetstream.JSErrCodeStreamMessageExceedsMaximum), retryproof.NotDone, retryproof.CodePermanent},
		{"nobody listens", jetstream.ErrNoStreamResponse, retryproof.NotDone, retryproof.CodeUnavailable},
		{"not connected", natsgo.ErrReconnectBufExceeded, retryproof.NotDone, retryproof.CodeUnavailable},
		{"disk full", api(codeInsufficientResources), retryproof.NotDone, retryproof.CodeUnavailable},
		{"write failed", api(10077), retryproof.Unknown, retryproof.CodeUnknown},
		{"stream full", fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: 10077, Description: "maximum bytes exceeded"}), retryproof.NotDone, retryproof.CodeUnavailable},
		{"no answer", natsgo.ErrTimeout, retryproof.Unknown, retryproof.CodeUnknown},
		{"closed while waiting", natsgo.ErrConnectionClosed, retryproof.Unknown, retryproof.CodeUnknown},
		{"never seen before", errors.New("?"), retryproof.Unknown, retryproof.CodeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := sendError(tt.err, 1, 1)
			if got := retryproof.OutcomeOf(err); got != tt.outcome {
				t.Errorf("outcome: got %v, want %v", got, tt.outcome)
			}
			if got := retryproof.CodeOf(err); got != tt.code {
				t.Errorf("code: got %q, want %q", got, tt.code)
			}
		})
	}
}

func TestEventIDIsTheDedupIDAsItIs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"pay_0123456789abcdefghjkmnpqrstvwxyz:SUCCEEDED", "evt-1.2/x"} {
		if got := headerValue(id); got != id {
			t.Errorf("got %q, want %q", got, id)
		}
	}
}

func FuzzNamesKeepTheirDifferences(f *testing.F) {
	for _, s := range [][2]string{{"a.b", "a_b"}, {" a", "a"}, {"%", "%25"}, {"~", ""}, {"\xff", "\ufffd"}, {"a\r\nb", "a b"}, {strings.Repeat("x", 300), strings.Repeat("x", 301)}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		got, err := unescape(headerValue(a))
		if err != nil || got != a {
			t.Errorf("header of %q: got %q, %v back", a, got, err)
		}
		token := subjectToken(a)
		if strings.ContainsAny(token, ".*> \t\r\n\x00") || len(token) > maxToken {
			t.Errorf("subject token of %q: got %q", a, token)
		}
		if a != b && token == subjectToken(b) {
			t.Errorf("%q and %q: got one subject token %q", a, b, token)
		}
	})
}

func FuzzUnescapeNeverPanics(f *testing.F) {
	for _, s := range []string{"", "%", "%4", "%41", "%zz", "a%20b"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) { _, _ = unescape(s) })
}

func FuzzReceiptOnlyNamesAcknowledgements(f *testing.F) {
	q := &Queue{cfg: Config{}.withDefaults(), lanes: make([]lane, 16)}
	for _, s := range []string{"", "1 2 $JS.ACK.RETRYPROOF_EVENTS.lane-1.1.2.3.4.5", "1 2 other", "-1 2 $JS.ACK.x", fmt.Sprintf("1 %d x", uint64(math.MaxUint64))} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := q.parseReceipt(s)
		if err != nil {
			return
		}
		if !strings.HasPrefix(r.ack, "$JS.ACK.") || r.lane < 0 || r.lane >= 16 {
			t.Errorf("%q: got %+v", s, r)
		}
	})
}
