package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retryproof/retryproof/check"
	"github.com/retryproof/retryproof/deadline"
)

func TestDurationsAreWrittenAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"20ms": 20 * time.Millisecond, "5s": 5 * time.Second, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "forever": deadline.Forever,
	} {
		if got := parse(t, `{"client":{"timeout":"`+text+`"}}`).Client.Timeout; got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestWhatIsWrongInAFileIsNamedWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, want string }{
		{`{"server":{"dedline":"5s"}}`, "line 1, column 12: server.dedline is unknown; did you mean server.deadline?"},
		{"{\n  \"server\": {\n    \"Deadline\": \"5s\"}}", "line 3, column 5: server.Deadline is unknown; did you mean server.deadline?"},
		{`{"server":{"retry_horizon":"5s"}}`, "did you mean client.retry_horizon?"},
		{`{"client":{"patience":"5s"}}`, "allowed here: timeout, retry_horizon"},
		{`{"clients":{"timeout":"5s"}}`, "did you mean client?"},
		{`{"é":1,"x":1}`, "line 1, column 8: x is unknown"},
		{`{"client":{"timeout":"5s","timeout":"6s"}}`, "line 1, column 27: client.timeout is there twice"},
		{`{"inbox":{},"inbox":{}}`, "inbox is there twice"},
		{`{"client":{"timeout":5}}`, `line 1, column 22: client.timeout must be a duration in quotes, such as "5s"`},
		{`{"client":{"timeout":null}}`, "client.timeout must be a duration in quotes"},
		{`{"client":{"timeout":{"a":[1,{}]}}}`, "client.timeout must be a duration in quotes"},
		{`{"client":{"timeout":"5"}}`, `client.timeout is "5"; must be a duration such as`},
		{`{"client":{"timeout":"0s"}}`, "must be positive"},
		{`{"client":{"timeout":"-1s"}}`, "must be positive"},
		{`{"client":{"timeout":"999999d"}}`, "must be a duration such as"},
		{`{"client":{"timeout":"1.5d"}}`, "must be a duration such as"},
		{`{"client":{"timeout":""}}`, "must be a duration such as"},
		{`{"psp":{"rate":"25"}}`, "psp.rate must be a number above 0"},
		{`{"psp":{"rate":0}}`, "psp.rate must be a number above 0"},
		{`{"psp":{"rate":1e999}}`, "psp.rate must be a number above 0"},
		{`{"server":{"guard":"row"}}`, "server.guard must be one of durable, window, none"},
		{`{"server":{"guard":""}}`, "server.guard must be one of"},
		{`{"psp":null}`, "psp must be an object"},
		{`{"client":[]}`, "client must be an object"},
		{`[]`, "line 1, column 1: must be an object"},
		{`"x"`, "must be an object"},
		{`{} {}`, "line 1, column 4: there is something after the end"},
		{``, "the file ends too early"},
		{`{"client":{`, "the file ends too early"},
		{`{"client":{"timeout"`, "the file ends too early"},
		{"{\n\"client\":{,}}", "line 2, column 11: not JSON"},
		{`{"client" {}}`, "not JSON"},
		{`{client:{}}`, "not JSON"},
		{`{"client":{}} // fine`, "something after the end"},
		{"{\"client\xff\":{}}", "not UTF-8"},
		{strings.Repeat(" ", check.MaxFile+1), "more than 1048576"},
	} {
		got, err := check.Parse([]byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: got %v, want %q", c.file, err, c.want)
		}
		if got != (check.Config{}) {
			t.Errorf("%.60s: got %+v beside an error", c.file, got)
		}
	}
}

func TestEverythingWrongInAFileIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	_, err := check.Parse([]byte(`{"client":{"timeout":5,"x":1,"retry_horizon":"soon"},"server":{"guard":"row"},"relay":{"lease":true}}`))
	for _, want := range []string{"client.timeout", "client.x", "client.retry_horizon", "server.guard", "relay.lease"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"client":{"timeout":"10s","retry_horizon":"forever"},"psp":{"rate":2.5},"dedup_cache":{"holds":"answers"}}`))
	f.Add([]byte(`{"server":{"x":[{"a":{}}],"guard":"none"}} x`))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := check.Parse(file)
		if err != nil {
			if c != (check.Config{}) {
				t.Errorf("%q: got %+v beside %v", file, c, err)
			}
			return
		}
		for _, x := range c.Report().Findings {
			if x.Code == check.CodeInvalid || x.Harm == "" || x.Numbers == "" {
				t.Errorf("%q: got %+v from a file that parses", file, x)
			}
		}
	})
}

func FuzzDurationsHaveDays(f *testing.F) {
	for text, want := range map[string]time.Duration{"30d": 30 * 24 * time.Hour, "5s": 5 * time.Second, "0": 0, "106751d": 106751 * 24 * time.Hour} {
		if got, err := check.ParseDuration(text); err != nil || got != want {
			f.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1.5d", "-1d", "106752d", "3y", "1d2h"} {
		if got, err := check.ParseDuration(text); err == nil {
			f.Errorf("%q: got %v, want an error", text, got)
		}
	}
	f.Add("99999999999999999999d")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := check.ParseDuration(text)
		if again, err2 := check.ParseDuration(got.String()); err == nil && (err2 != nil || again != got) {
			t.Errorf("%q is %v, which reads as %v, %v", text, got, again, err2)
		}
	})
}
