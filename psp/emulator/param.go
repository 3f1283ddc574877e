package emulator

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Stripe's limits on metadata.
const (
	maxMetadataKeys  = 50
	maxMetadataKey   = 40
	maxMetadataValue = 500
)

// param is a parsed parameter: "metadata[payment_id]" is base metadata, key
// payment_id; "expand[]" and "expand[0]" are base expand with the key "" or "0".
type param struct {
	base, key string
	nested    bool
}

// parseParam splits a parameter's name. Deeper nesting is not known here.
func parseParam(name string) (param, bool) {
	base, rest, nested := strings.Cut(name, "[")
	if !nested {
		return param{base: name}, name != "" && !strings.Contains(name, "]")
	}
	key, ok := strings.CutSuffix(rest, "]")
	if !ok || base == "" || strings.ContainsAny(key, "[]") || strings.Contains(base, "]") {
		return param{}, false
	}
	return param{base, key, true}, true
}

// form is a request's parameters, checked for shape.
type form struct {
	values   map[string]string
	metadata map[string]string
	expand   []string
	created  map[string]string // gt, gte, lt, lte, or "" for equality
}

// parseForm refuses what is not among the allowed names, what is not UTF-8 and
// what is given twice.
func parseForm(in url.Values, allowed ...string) (*form, *failure) {
	f := &form{values: map[string]string{}, metadata: map[string]string{}, created: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		p, ok := parseParam(name)
		if !ok || !slices.Contains(allowed, p.base) {
			return nil, invalid("parameter_unknown", name, "Received unknown parameter: "+strconv.QuoteToASCII(name))
		}
		list := in[name]
		if len(list) != 1 && !strings.HasSuffix(name, "[]") {
			return nil, invalid("", name, "The parameter is given more than once.")
		}
		for _, v := range list {
			if fail := f.put(name, p, v); fail != nil {
				return nil, fail
			}
		}
	}
	return f, nil
}

func (f *form) put(name string, p param, v string) *failure {
	if !utf8.ValidString(v) || !utf8.ValidString(name) {
		return invalid("", name, "The parameter is not UTF-8.")
	}
	return f.set(name, p, v)
}

func (f *form) set(name string, p param, v string) *failure {
	switch p.base {
	case "metadata":
		return f.setMetadata(name, p, v)
	case "expand":
		f.expand = append(f.expand, v)
		if charge := strings.TrimPrefix(v, "data."); charge != "latest_charge" {
			return invalid("", "expand", "This emulator can expand latest_charge only.")
		}
	case "payment_method_types":
		if v != "card" {
			return invalid("", "payment_method_types", "This emulator knows the payment method type card only.")
		}
	case "created":
		if _, err := strconv.ParseInt(v, 10, 64); err != nil || !slices.Contains([]string{"", "gt", "gte", "lt", "lte"}, p.key) {
			return invalid("parameter_invalid_integer", name, "Invalid integer in created.")
		}
		f.created[p.key] = v
	case "automatic_payment_methods":
		if !slices.Contains([]string{"enabled", "allow_redirects"}, p.key) {
			return invalid("parameter_unknown", name, "Received unknown parameter: "+name)
		}
	default:
		if p.nested {
			return invalid("parameter_unknown", name, "Received unknown parameter: "+strconv.QuoteToASCII(name))
		}
		f.values[p.base] = v
	}
	return nil
}

func (f *form) setMetadata(name string, p param, v string) *failure {
	switch {
	case !p.nested || p.key == "":
		return invalid("", name, "Metadata must be given as metadata[name]=value.")
	case len(p.key) > maxMetadataKey:
		return invalid("", name, "A metadata name may have 40 characters.")
	case utf8.RuneCountInString(v) > maxMetadataValue:
		return invalid("", name, "A metadata value may have 500 characters.")
	}
	if v != "" { // an empty value unsets
		f.metadata[p.key] = v
	}
	if len(f.metadata) > maxMetadataKeys {
		return invalid("", "metadata", "Metadata may have 50 names.")
	}
	return nil
}

// flag reads "true" or "false"; absent is false.
func (f *form) flag(name string) (bool, *failure) {
	switch f.values[name] {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, invalid("", name, "Invalid boolean: must be true or false.")
}

// amount reads a positive number of minor units; absent is 0.
func (f *form) amount(limit int64, required bool) (int64, *failure) {
	s, given := f.values["amount"]
	if !given {
		if required {
			return 0, invalid("parameter_missing", "amount", "Missing required param: amount.")
		}
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s {
		return 0, invalid("parameter_invalid_integer", "amount", "Invalid integer: "+strconv.QuoteToASCII(s))
	}
	if n < 1 {
		return 0, invalid("parameter_invalid_integer", "amount", "This value must be greater than or equal to 1.")
	}
	if limit > 0 && n > limit {
		return 0, invalid("amount_too_large", "amount", "Amount must be no more than "+strconv.FormatInt(limit, 10)+".")
	}
	return n, nil
}

// currency reads three letters and returns them in lower case.
func (f *form) currency() (string, *failure) {
	s, given := f.values["currency"]
	if !given {
		return "", invalid("parameter_missing", "currency", "Missing required param: currency.")
	}
	low := strings.ToLower(s)
	if len(low) != 3 || strings.Trim(low, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", invalid("", "currency", "Invalid currency: "+strconv.QuoteToASCII(s)+". Use three letters, for example usd.")
	}
	return low, nil
}

// limit reads the page size, 1 to 100, 10 when absent.
func (f *form) limit() (int, *failure) {
	s, given := f.values["limit"]
	if !given {
		return 10, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 100 {
		return 0, invalid("parameter_invalid_integer", "limit", "Limit must be an integer from 1 to 100.")
	}
	return n, nil
}

// wantsCharge says that latest_charge is to be expanded.
func (f *form) wantsCharge() bool { return len(f.expand) > 0 }
