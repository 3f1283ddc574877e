package story

// laterBranches are branches of the story that nothing here can play yet.
func laterBranches() []scenario {
	var out []scenario
	for _, l := range []struct {
		group, why string
		ids        []string
	}{
		{"Queue, log and notification branches", "the queue that is a log is not built yet", []string{"K-idempotent", "K-txn-committed", "K-txn-open"}},
		{"Queue, log and notification branches", "the dedup window in a cache is not built yet", []string{"window"}},
		{"Queue, log and notification branches", "mail and its send record are not built yet", []string{"email"}},
		{"Stream branches", "the stream job is not built yet", []string{"S-main", "S", "tag-by-completion", "seen-outside", "horizon", "no-floor", "processing-ttl", "2pc-sink"}},
		{"Region branches", "a second Region is not built yet", []string{"F", "F-attempt-key", "F-random-event", "F2", "F2-home", "F2-strong", "F2-single-writer", "windows"}},
	} {
		for _, id := range l.ids {
			out = append(out, scenario{group: l.group, id: id, title: laterTitles[id], notYet: l.why})
		}
	}
	return out
}

var laterTitles = map[string]string{
	"K-idempotent":    "An idempotent producer restarts",
	"K-txn-committed": "A transactional producer dies after its commit", "K-txn-open": "A transactional producer dies before its commit",
	"window": "Two reminders in one window", "email": "A mail whose provider timed out", "S-main": "The stream job restores",
	"S": "Restore without the full flush", "tag-by-completion": "A sink that tags with the last completed checkpoint",
	"seen-outside": "Seen ids in a cache that a restore does not rewind", "horizon": "A copy behind the acceptance horizon",
	"no-floor": "No floor under the watermark", "processing-ttl": "Dedup ids that expire by processing time",
	"2pc-sink": "A sink that commits with the checkpoint", "F": "A Region fails during replication",
	"F-attempt-key": "The Region's name in the processor's key", "F-random-event": "A random event id per Region",
	"F2": "Two Regions claim one key", "F2-home": "One home Region per caller", "F2-strong": "A claim store that is consistent across Regions",
	"F2-single-writer": "One Region writes the ledger", "windows": "Dedup windows end at the Region's border",
}
