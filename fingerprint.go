package retryproof

import (
	"slices"
	"strconv"
	"strings"
)

// Field is one field of a request's meaning. Its name, type and value are
// hashed; the order of the fields is the program's, not the request's.
type Field struct {
	name, kind, value string
	since             int
}

// Text is a meaning field with a text value. The bytes count as they are: two
// Unicode spellings of one word are two meanings.
func Text(name, value string) Field { return Field{name: name, kind: "s", value: value, since: 1} }

// Int is a meaning field with an integer value, exact over the whole range.
func Int(name string, value int64) Field {
	return Field{name: name, kind: "i", value: strconv.FormatInt(value, 10), since: 1}
}

// Since marks a field that joined the meaning in the given version of the
// program's field list (2 or more). Requests that were claimed before are
// compared without it, so that a rolling release, or a roll-back, does not turn
// a retry into a different request.
func (f Field) Since(version int) Field {
	f.since = version
	return f
}

// Fingerprint says what a request means (mission A3): a hash over its meaning
// fields, never over its bytes. It carries one hash per version of the field
// list, "2=…,1=…", newest first, so that an older or newer program can compare
// with the version that it knows.
type Fingerprint string

// FingerprintOf hashes the fields in the order given, once per version up to the
// newest that a field names.
func FingerprintOf(fields ...Field) Fingerprint {
	newest := 1
	for _, f := range fields {
		newest = max(newest, f.since)
	}
	out := make([]byte, 0, 64)
	parts := make([]string, 0, 24)
	for v := newest; v >= 1; v-- {
		parts = parts[:0]
		for _, f := range fields {
			if f.since <= v {
				parts = append(parts, f.name, f.kind, f.value)
			}
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(strconv.AppendInt(out, int64(v), 10), '=')
		sum := digest("fingerprint", parts...)
		out = append(out, sum[:]...)
	}
	return Fingerprint(out)
}

// Same reports whether two fingerprints mean the same request: their hashes are
// equal in the newest version that both carry. Fingerprints without a common
// version are not the same, and neither is an empty one.
func (f Fingerprint) Same(other Fingerprint) bool {
	if f == other {
		return f.Version() > 0
	}
	newest, same := 0, false
	for _, m := range f.versions() {
		for _, t := range other.versions() {
			if m.version == t.version && m.version > newest {
				newest, same = m.version, m.hash == t.hash
			}
		}
	}
	return same
}

// Version is the newest version of the field list that the fingerprint carries,
// 0 for an empty or broken one.
func (f Fingerprint) Version() int {
	if only, ok := parseVersion(string(f)); ok {
		return only.version
	}
	newest := 0
	for _, v := range f.versions() {
		newest = max(newest, v.version)
	}
	return newest
}

type versionedHash struct {
	version int
	hash    string
}

func (f Fingerprint) versions() []versionedHash {
	var out []versionedHash
	for part := range strings.SplitSeq(string(f), ",") {
		v, ok := parseVersion(part)
		if !ok {
			continue
		}
		if slices.ContainsFunc(out, func(have versionedHash) bool { return have.version == v.version }) {
			return nil // two hashes for one version: nothing that this package wrote
		}
		out = append(out, v)
	}
	return out
}

// parseVersion reads the hash of one version.
func parseVersion(part string) (versionedHash, bool) {
	v, hash, ok := strings.Cut(part, "=")
	n, err := strconv.Atoi(v)
	if !ok || err != nil || n < 1 || strconv.Itoa(n) != v || hash == "" || strings.ContainsRune(hash, ',') {
		return versionedHash{}, false
	}
	return versionedHash{n, hash}, true
}
