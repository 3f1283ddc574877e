package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
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
	var pairs map[string]string
	if err := json.Unmarshal(text, &pairs); err != nil {
		return tokenList{}, misuse{fmt.Errorf(`--%s: %s is not a JSON object of "token": "%s"`, flag, path, tokenNames[flag])}
	}
	var list tokenList
	for token, caller := range pairs {
		if len(token) < 16 || caller == "" {
			return tokenList{}, misuse{fmt.Errorf("--%s: every token needs 16 bytes or more, and a %s", flag, tokenNames[flag])}
		}
		list.entries = append(list.entries, tokenEntry{sha256.Sum256([]byte(token)), caller})
	}
	if len(list.entries) == 0 {
		return tokenList{}, misuse{fmt.Errorf("--%s: %s lists no token", flag, path)}
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
