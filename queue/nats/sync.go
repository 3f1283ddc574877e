package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// VerifySync asks all NATS servers whether they sync every JetStream write to
// disk before they acknowledge it, and returns an error that names those that do
// not. It needs a connection of the system account: to an application's account
// a server does not tell. Servers that do not answer within a second are not
// judged; no answer at all is an error.
//
// A stream with three replicas on machines that cannot lose power together is
// safe without.
func VerifySync(ctx context.Context, system *natsgo.Conn) error {
	inbox := system.NewInbox()
	sub, err := system.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("queue/nats: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := system.PublishRequest("$SYS.REQ.SERVER.PING.VARZ", inbox, nil); err != nil {
		return fmt.Errorf("queue/nats: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var errs []error
	answers := 0
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			break
		}
		if m.Header.Get("Status") == "503" {
			return errors.New("queue/nats: no server told its settings: the connection is not of the system account")
		}
		unsafe, err := unsyncedServer(m.Data)
		if err != nil {
			return fmt.Errorf("queue/nats: %w", err)
		}
		answers++
		errs = append(errs, unsafe)
	}
	if answers == 0 {
		return errors.New("queue/nats: no server told its settings: the connection is not of the system account, or no server answered")
	}
	return errors.Join(errs...)
}

// VerifySync is [VerifySync] on the queue's own connection: an error unless the
// servers say that they sync every write, which only a connection of the system
// account hears.
func (q *Queue) VerifySync(ctx context.Context) error { return VerifySync(ctx, q.nc) }

// unsyncedServer returns what is unsafe about the server that sent the answer.
func unsyncedServer(answer []byte) (unsafe, err error) {
	var a struct {
		Server struct {
			Name string `json:"name"`
		} `json:"server"`
		Data struct {
			JetStream struct {
				Config *struct {
					SyncAlways   bool          `json:"sync_always"`
					SyncInterval time.Duration `json:"sync_interval"`
				} `json:"config"`
			} `json:"jetstream"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, err
	}
	c := a.Data.JetStream.Config
	if c == nil || c.SyncAlways {
		return nil, nil // without JetStream it stores nothing
	}
	return fmt.Errorf("server %s acknowledges first and syncs every %v: a power failure loses acknowledged messages; set jetstream { sync_interval: always }", a.Server.Name, c.SyncInterval), nil
}
