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
	demo    bool
}

type tokenEntry struct {
	digest [sha256.Size]byte
	caller string
}

// demoTokens are the two buyers of the embedded default.
func demoTokens() tokenList {
	return tokenList{demo: true, entries: []tokenEntry{
		{sha256.Sum256([]byte("demo-u1")), "u1"}, {sha256.Sum256([]byte("demo-u2")), "u2"},
	}}
}

// readTokens reads {"token": "caller", …} from a file.
func readTokens(path string) (tokenList, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return tokenList{}, misuse{fmt.Errorf("--tokens: %w", err)}
	}
	var pairs map[string]string
	if err := json.Unmarshal(text, &pairs); err != nil {
		return tokenList{}, misuse{fmt.Errorf(`--tokens: %s is not a JSON object of "token": "caller"`, path)}
	}
	var list tokenList
	for token, caller := range pairs {
		if len(token) < 16 || caller == "" {
			return tokenList{}, misuse{fmt.Errorf("--tokens: every token needs 16 bytes or more, and a caller")}
		}
		list.entries = append(list.entries, tokenEntry{sha256.Sum256([]byte(token)), caller})
	}
	if len(list.entries) == 0 {
		return tokenList{}, misuse{fmt.Errorf("--tokens: %s lists no token", path)}
	}
	return list, nil
}

// authenticate looks the token up in constant time per entry.
func (l tokenList) authenticate(token string) (string, bool) {
	digest := sha256.Sum256([]byte(token))
	caller, known := "", false
	for _, e := range l.entries {
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
