package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/retryproof/retryproof/httpkey"
	pushemulator "github.com/retryproof/retryproof/push/emulator"
)

// tokenList maps bearer tokens to callers. It holds digests, so that a dump of
// memory or a log line shows no token.
type tokenList struct {
	entries []tokenEntry
	// operators are who may look at everything and give verdicts.
	operators []tokenEntry
	demo      bool
}

type tokenEntry struct {
	digest [sha256.Size]byte
	caller string
}

// demoTokens are the two buyers and the operator of the embedded default.
func demoTokens() tokenList {
	return tokenList{demo: true, operators: []tokenEntry{{sha256.Sum256([]byte("demo-operator")), "demo"}}, entries: []tokenEntry{
		{sha256.Sum256([]byte("demo-u1")), "u1"}, {sha256.Sum256([]byte("demo-u2")), "u2"},
	}}
}

// tokenNames says what a token stands for, by the flag that names its file.
var tokenNames = map[string]string{"tokens": "caller", "operators": "name"}

// readTokens reads {"token": "caller", …} from the file that a flag names.
func readTokens(flag, path string) (tokenList, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return tokenList{}, misuse{fmt.Errorf("--%s: %w", flag, err)}
	}
	list, err := parseTokens(text, tokenNames[flag])
	if err != nil {
		return tokenList{}, misuse{fmt.Errorf("--%s %s: %w", flag, path, err)}
	}
	return list, nil
}

// The shortest token, and the longest name: that of the push provider's addresses,
// which are callers.
const (
	minToken = 16
	maxName  = pushemulator.MaxToBytes
)

// parseTokens reads {"token": "name", …}. It refuses what would silently mean something
// else, or would be refused later, at each request: a token that comes twice, one that
// no Authorization header can carry, a name that no store can keep. Its errors show no
// token.
func parseTokens(text []byte, name string) (tokenList, error) {
	members, err := httpkey.ObjectMembers(text)
	if err != nil {
		return tokenList{}, fmt.Errorf(`it is not a JSON object of "token": "%s" with each token once`, name)
	}
	var list tokenList
	for i, m := range members {
		caller, ok := m.Text()
		switch {
		case !ok:
			return tokenList{}, fmt.Errorf(`it is not a JSON object of "token": "%s": member %d has no text`, name, i+1)
		case len(m.Name) < minToken:
			return tokenList{}, fmt.Errorf("every token needs %d bytes or more, and a %s: token %d is shorter", minToken, name, i+1)
		case strings.ContainsFunc(m.Name, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			return tokenList{}, fmt.Errorf("token %d has a blank or a character that is not visible ASCII: no request could carry it", i+1)
		case caller == "" || len(caller) > maxName || strings.ContainsFunc(caller, unicode.IsControl):
			return tokenList{}, fmt.Errorf("every token needs a %s of 1 to %d bytes without control characters: that of token %d is not", name, maxName, i+1)
		}
		list.entries = append(list.entries, tokenEntry{sha256.Sum256([]byte(m.Name)), caller})
	}
	if len(list.entries) == 0 {
		return tokenList{}, errors.New("it lists no token")
	}
	return list, nil
}

// authenticate looks the token up in constant time per entry.
func (l tokenList) authenticate(token string) (string, bool) { return lookUp(l.entries, token) }

// operator is authenticate for operators.
func (l tokenList) operator(token string) (string, bool) { return lookUp(l.operators, token) }

func lookUp(entries []tokenEntry, token string) (string, bool) {
	digest := sha256.Sum256([]byte(token))
	caller, known := "", false
	for _, e := range entries {
		if subtle.ConstantTimeCompare(e.digest[:], digest[:]) == 1 {
			caller, known = e.caller, true
		}
	}
	return caller, known
}

// checkListen refuses to serve the demo buyers, whose tokens are public, to
// anybody but this machine.
func (l tokenList) checkListen(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return misuse{fmt.Errorf("--listen %q is not host:port", address)}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return misuse{fmt.Errorf("--listen %q: a port is 0 to 65535", address)}
	}
	if l.demo && !loopback(host) {
		return misuse{fmt.Errorf("--listen %s is not loopback, and the demo buyers' tokens are public: give --tokens FILE, or listen on 127.0.0.1", address)}
	}
	return nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
