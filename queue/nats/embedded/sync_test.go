package embedded_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/retryproof/retryproof/queue/nats"
	"github.com/retryproof/retryproof/queue/nats/embedded"
)

// systemServer runs a plain server with accounts, since only the system account
// may ask for settings.
func systemServer(t *testing.T, always bool) *server.Server {
	t.Helper()
	app, system := server.NewAccount("APP"), server.NewAccount("SYS")
	srv, err := server.NewServer(&server.Options{
		ServerName: "judged", JetStream: true, StoreDir: t.TempDir(), SyncAlways: always, SyncInterval: 2 * time.Minute,
		DontListen: true, NoSigs: true, NoLog: true,
		Accounts: []*server.Account{app, system}, SystemAccount: "SYS",
		Users: []*server.User{{Username: "app", Account: app}, {Username: "system", Account: system}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return srv
}

func TestVerifySyncTellsSyncedServersFromOthers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		user   string
		always bool
		want   string // in the error, "" for none
	}{
		{"system", true, ""},
		{"system", false, "server judged acknowledges first and syncs every 2m0s"},
		{"app", true, "not of the system account"},
	} {
		t.Run(fmt.Sprintf("%s, always %v", tt.user, tt.always), func(t *testing.T) {
			t.Parallel()
			nc, err := natsgo.Connect("", natsgo.InProcessServer(systemServer(t, tt.always)), natsgo.UserInfo(tt.user, ""))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			err = nats.VerifySync(t.Context(), nc)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want nil", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}

// BenchmarkSyncAlwaysAgainstDefault sends to a server that syncs every write and
// to one with JetStream's default, in turn, and prints both rates and their
// ratio.
func BenchmarkSyncAlwaysAgainstDefault(b *testing.B) {
	for _, senders := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			always := dial(b, start(b, embedded.Config{Dir: b.TempDir()}), nats.Config{})
			later := dial(b, start(b, embedded.Config{Dir: b.TempDir(), SyncInterval: 2 * time.Minute}), nats.Config{})
			var spent [2]time.Duration
			rounds := 0
			for b.Loop() {
				for i, q := range []*nats.Queue{always, later} {
					begin := time.Now()
					sendRound(b, q, senders, rounds)
					spent[i] += time.Since(begin)
				}
				rounds++
			}
			messages := float64(rounds * senders * perSender)
			b.ReportMetric(messages/spent[0].Seconds(), "always/s")
			b.ReportMetric(messages/spent[1].Seconds(), "default/s")
			b.ReportMetric(spent[0].Seconds()/spent[1].Seconds(), "default/always")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const perSender = 50

func sendRound(b *testing.B, q *nats.Queue, senders, round int) {
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			m := message("", fmt.Sprintf("m%d", s))
			m.Body = make([]byte, 256)
			for i := range perSender {
				m.ID = fmt.Sprintf("%d-%d-%d", round, s, i)
				if err := q.Send(b.Context(), m); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkReceiveFinish takes messages of many groups off a server that syncs
// every write.
func BenchmarkReceiveFinish(b *testing.B) {
	for _, receivers := range []int{1, 8} {
		b.Run(fmt.Sprintf("receivers=%d", receivers), func(b *testing.B) {
			q := dial(b, start(b, embedded.Config{Dir: b.TempDir()}), nats.Config{MaxWait: 5 * time.Millisecond})
			const batch = 64 * perSender
			round, finished := 0, 0
			for b.Loop() {
				b.StopTimer()
				sendRound(b, q, 64, round)
				round++
				b.StartTimer()
				finished += receiveRound(b, q, receivers, batch)
			}
			b.ReportMetric(float64(finished)/b.Elapsed().Seconds(), "messages/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func receiveRound(b *testing.B, q *nats.Queue, receivers, want int) int {
	var mu sync.Mutex
	done := 0
	var wg sync.WaitGroup
	for range receivers {
		wg.Go(func() {
			for {
				mu.Lock()
				enough := done >= want
				mu.Unlock()
				if enough {
					return
				}
				ds, err := q.Receive(b.Context(), 8)
				if err != nil {
					b.Error(err)
					return
				}
				for _, d := range ds {
					if _, err := q.Finish(b.Context(), d); err != nil {
						b.Error(err)
						return
					}
				}
				mu.Lock()
				done += len(ds)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return done
}
