package story

// laterBranches are branches of the story that nothing here can play yet.
func laterBranches() []scenario {
	var out []scenario
	for _, l := range []struct {
		group, why string
		ids        []string
	}{
		{"Side traces", "no server checks an arrival stamp and no call voids a key yet", []string{"D-deadline", "D-void", "D-void-late", "D-race", "formula-1", "formula-2"}},
		{"Side traces", "applying by version and conditions on records are not built yet", []string{"V", "M"}},
		{"Side traces", "refunds are not built yet", []string{"refund"}},
		{"Side traces", "the question for the last action of a device is not built yet", []string{"reinstall"}},
		{"Queue, log and notification branches", "the queue that is a log is not built yet", []string{"K-idempotent", "K-txn-committed", "K-txn-open"}},
		{"Queue, log and notification branches", "the dedup window in a cache is not built yet", []string{"window"}},
		{"Queue, log and notification branches", "mail and its send record are not built yet", []string{"email"}},
		{"Stream branches", "the stream job is not built yet", []string{"S-main", "S", "tag-by-completion", "seen-outside", "horizon", "no-floor", "processing-ttl", "2pc-sink"}},
		{"Region branches", "a second Region is not built yet", []string{"F", "F-attempt-key", "F-random-event", "F2", "F2-home", "F2-strong", "F2-single-writer", "windows"}},
		{"Six ways", "sagas are not built yet: the row is missing in six-ways", []string{"saga-with-keys"}},
	} {
		for _, id := range l.ids {
			out = append(out, scenario{group: l.group, id: id, title: laterTitles[id], notYet: l.why})
		}
	}
	return out
}

var laterTitles = map[string]string{
	"D-deadline": "An original that waited too long is refused", "D-void": "“Did it happen?” voids the key",
	"D-void-late": "A voided key stays void after its record has gone", "D-race": "The question races the original",
	"formula-1": "The guard remembers at least as long as retries come", "formula-2": "Deadline and waiting stay below the client's timeout",
	"V": "A like that is resent last", "M": "A message that is parsed again after it was moved", "refund": "A refund whose call times out",
	"reinstall": "The app loses its journal", "K-idempotent": "An idempotent producer restarts",
	"K-txn-committed": "A transactional producer dies after its commit", "K-txn-open": "A transactional producer dies before its commit",
	"window": "Two reminders in one window", "email": "A mail whose provider timed out", "S-main": "The stream job restores",
	"S": "Restore without the full flush", "tag-by-completion": "A sink that tags with the last completed checkpoint",
	"seen-outside": "Seen ids in a cache that a restore does not rewind", "horizon": "A copy behind the acceptance horizon",
	"no-floor": "No floor under the watermark", "processing-ttl": "Dedup ids that expire by processing time",
	"2pc-sink": "A sink that commits with the checkpoint", "F": "A Region fails during replication",
	"F-attempt-key": "The Region's name in the processor's key", "F-random-event": "A random event id per Region",
	"F2": "Two Regions claim one key", "F2-home": "One home Region per caller", "F2-strong": "A claim store that is consistent across Regions",
	"F2-single-writer": "One Region writes the ledger", "windows": "Dedup windows end at the Region's border",
	"saga-with-keys": "A saga named after the client's key",
}
