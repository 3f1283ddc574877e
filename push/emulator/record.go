package emulator

import (
	"encoding/json"
	"time"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/push"
)

const recordVersion = 1

// record is one accepted send in the journal.
type record struct {
	Version   int       `json:"v"`
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	To        string    `json:"to"`
	ReplaceID string    `json:"replace_id,omitempty"`
	Title     string    `json:"title,omitempty"`
	Body      string    `json:"body,omitempty"`
}

func (r record) encode() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic("push emulator: a record of plain fields did not marshal: " + err.Error()) // unreachable: At is between the years 0 and 9999
	}
	return data
}

func parseRecord(data []byte) (record, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, badRecord("it is not JSON of the expected shape", err)
	}
	if r.Version != recordVersion {
		return record{}, badRecord("another version wrote it", nil)
	}
	if r.Seq < 1 {
		return record{}, badRecord("it has no number", nil)
	}
	if err := Validate(push.Notification{To: r.To, ReplaceID: r.ReplaceID, Title: r.Title, Body: r.Body}); err != nil {
		return record{}, badRecord("its notification is invalid", err)
	}
	return r, nil
}

func badRecord(why string, cause error) error {
	return &retryproof.Error{Outcome: retryproof.Unknown, Code: retryproof.CodeUnknown,
		Message: "a record of the push journal cannot be read: " + why,
		Hint:    "start with the version that wrote it, or with an empty journal", Err: cause}
}
