package embedded

import (
	"testing"
	"time"
)

// A client cannot ask for it, so the server is looked at from inside.
func TestEveryWriteIsSyncedUnlessAnIntervalIsSet(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]bool{0: true, time.Minute: false} {
		s, err := Start(Config{Dir: t.TempDir(), SyncInterval: interval, MaxStoreBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		got := s.srv.JetStreamConfig()
		if got.SyncAlways != want || got.MaxStore != 1<<20 || !want && got.SyncInterval != interval {
			t.Errorf("SyncInterval %v: got %+v, want SyncAlways %v", interval, got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
