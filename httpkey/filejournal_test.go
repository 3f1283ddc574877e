package httpkey_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/retryproof/retryproof"
	"github.com/retryproof/retryproof/httpkey"
)

func TestNoFormOfAnEntryShowsItsKey(t *testing.T) {
	t.Parallel()
	e := entry("i", "SECRET-KEY", start)
	var shown bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&shown, nil), slog.NewTextHandler(&shown, nil)} {
		slog.New(handler).Info("pending", "entry", e, "pointer", &e, "list", []httpkey.Entry{e})
	}
	text, err := json.Marshal(map[string]any{"entry": e, "pointer": &e})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = shown.Write(text)
	_, _ = fmt.Fprintf(&shown, "%v %+v %#v %s", e, &e, []httpkey.Entry{e}, e)
	if strings.Contains(shown.String(), "SECRET") || !strings.Contains(shown.String(), e.Key.String()) {
		t.Errorf("got %s, want the key's digest only", shown.String())
	}
	if err := json.Unmarshal(text, &map[string]httpkey.Entry{}); retryproof.CodeOf(err) != retryproof.CodeInvalid {
		t.Errorf("got %v, want its JSON refused: it does not hold the key", err)
	}
}

// A file may be damaged, or made by somebody else: nothing of it may become a header.
func TestAFileThatNoJournalWroteIsAnErrorAndNeverAKey(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string][2]string{
		"no key":            {`"key":"K1"`, `"key":""`},
		"a header":          {`"key":"K1"`, `"key":"a\nX-Evil: 1"`},
		"a person":          {`"key":"K1"`, `"key":"ann@example.com"`},
		"an unknown state":  {`"state":"open"`, `"state":"weird"`},
		"no state":          {`"state":"open"`, `"state":""`},
		"fewer than none":   {`"doubtful":0`, `"doubtful":-9`},
		"no attempt":        {`"attempt":1`, `"attempt":0`},
		"no revision":       {`"revision":1`, `"revision":0`},
		"another's intent":  {`"intent":"i"`, `"intent":"j"`},
		"a key that counts": {`"key":"K1"`, `"key":7`},
	} {
		dir := t.TempDir()
		j := openJournal(t, dir)
		e, _ := open(t, j, entry("i", "K1", start))
		path := filepath.Join(dir, string(retryproof.Derive("intent", "i"))+".json")
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(edit[0])) {
			t.Fatalf("%s: got %s %v", name, text, err)
		}
		if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(edit[0]), []byte(edit[1])), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newSender(t, httpkey.ClientConfig{Journal: j}, status(201))
		if _, err := s.post("i", pay); err == nil || len(s.script.keys) != 0 || strings.Contains(err.Error(), "Evil") {
			t.Errorf("%s: got %v after %d sends, want an error and nothing sent", name, err, len(s.script.keys))
		}
		if stands, saved, err := j.Save(context.Background(), e); saved || err == nil {
			t.Errorf("%s: Save: got %+v %v %v, want an error", name, stands, saved, err)
		}
		if list, err := j.Pending(context.Background()); len(list) != 0 || err == nil {
			t.Errorf("%s: Pending: got %v %v, want an error", name, list, err)
		}
	}
}

// unchecked is a journal of somebody else's that hands out what it finds.
type unchecked struct{ httpkey.MemoryJournal }

func (*unchecked) Open(_ context.Context, e httpkey.Entry) (httpkey.Entry, bool, error) {
	e.Key = "a\nX-Evil: 1"
	return e, false, nil
}

func TestABadKeyOfAnyJournalIsNotSent(t *testing.T) {
	t.Parallel()
	s := newSender(t, httpkey.ClientConfig{Journal: new(unchecked)}, status(201))
	if _, err := s.post("i", pay); retryproof.OutcomeOf(err) != retryproof.NotDone || len(s.script.keys) != 0 {
		t.Errorf("got %v after %d sends, want none", err, len(s.script.keys))
	}
}

// Forget in one process and writes in another do not meet.
func TestForgetTakesNoFileThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := openJournal(t, dir), openJournal(t, dir)
	later := start.AddDate(100, 0, 0) // later than any file's own time
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := b.Forget(context.Background(), later); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 100 {
		open(t, a, entry("i"+strconv.Itoa(i), "K1", start))
	}
	stop()
	wg.Wait()
	if list, err := b.Pending(context.Background()); len(list) != 100 || err != nil {
		t.Errorf("got %d %v, want all of them", len(list), err)
	}
}

func TestWhatACrashLeftIsWrittenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := string(retryproof.Derive("intent", "i"))
	if err := os.WriteFile(filepath.Join(dir, name+".tmp"), []byte(strings.Repeat("{", 9000)), 0o600); err != nil {
		t.Fatal(err)
	}
	want, _ := open(t, openJournal(t, dir), entry("i", "K1", start))
	if got, made := open(t, openJournal(t, dir), entry("i", "K2", start)); made || got != want {
		t.Errorf("got %+v %v, want %+v", got, made, want)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) != 0 {
		t.Errorf("got %v, want no file left", left)
	}
}
