package check

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/retryproof/retryproof/deadline"
	"github.com/retryproof/retryproof/internal/spelling"
)

// MaxFile is the largest file that Parse takes, in bytes.
const MaxFile = 1 << 20

var durationType = reflect.TypeFor[time.Duration]()

// Parse reads the JSON form of a configuration and returns everything that is wrong
// with it at once, each with line and column. Members that are absent are not stated;
// one that is there must say something, so 0, "" and null are errors.
func Parse(file []byte) (Config, error) {
	var c Config
	if len(file) > MaxFile {
		return c, fmt.Errorf("check: the file has %d bytes, more than %d", len(file), MaxFile)
	}
	if !utf8.Valid(file) {
		return c, errors.New("check: the file is not UTF-8")
	}
	p := &parser{file: file, decoder: json.NewDecoder(bytes.NewReader(file))}
	p.decoder.UseNumber()
	if err := p.value("", "", reflect.ValueOf(&c).Elem()); err != nil {
		return Config{}, errors.Join(append(p.errs, err)...)
	}
	if at := p.next(); at < len(file) {
		p.fail(at, "there is something after the end of the object")
	}
	if len(p.errs) > 0 {
		return Config{}, errors.Join(p.errs...)
	}
	return c, nil
}

// parser walks the tokens of the file along the fields of Config.
type parser struct {
	file    []byte
	decoder *json.Decoder
	errs    []error
}

// next is where the next token begins.
func (p *parser) next() int { return p.after(" \t\r\n,:") }

// after is the first place behind the last token that has none of the characters.
func (p *parser) after(skipped string) int {
	at := int(p.decoder.InputOffset())
	for at < len(p.file) && strings.IndexByte(skipped, p.file[at]) >= 0 {
		at++
	}
	return at
}

func (p *parser) fail(at int, format string, args ...any) {
	p.errs = append(p.errs, p.at(at, format, args...))
}

func (p *parser) at(at int, format string, args ...any) error {
	before := p.file[:min(at, len(p.file))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Errorf("check: line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}

// token reads one token; an error is one that ends the reading.
func (p *parser) token() (json.Token, error) {
	t, err := p.decoder.Token()
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, p.at(len(p.file), "the file ends too early")
	}
	return nil, p.at(p.after(" \t\r\n"), "not JSON: %v", err)
}

// value reads one value into a field. The error is one of syntax; what is wrong with
// the value itself is noted and the reading goes on.
func (p *parser) value(path, enum string, into reflect.Value) error {
	at := p.next()
	t, err := p.token()
	if err != nil {
		return err
	}
	if t == json.Delim('{') && into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if t == json.Delim('{') && into.Kind() == reflect.Struct {
		return p.object(path, into)
	}
	if wrong := set(into, enum, t); wrong != "" {
		p.fail(at, "%s", strings.TrimSpace(path+" "+wrong))
	}
	return p.skip(t)
}

// object reads the members of an object.
func (p *parser) object(path string, into reflect.Value) error {
	seen := map[string]bool{}
	for p.decoder.More() {
		at := p.next()
		t, err := p.token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok { // the decoder allows no other
			return p.at(at, "not JSON: a member has no name")
		}
		member := strings.TrimPrefix(path+"."+name, ".")
		field, enum, known := fieldOf(into, name)
		switch {
		case !known:
			p.fail(at, "%s is unknown; %s", member, suggestion(path, name, into.Type()))
		case seen[name]:
			p.fail(at, "%s is there twice", member)
			known = false
		}
		seen[name] = true
		if known {
			err = p.value(member, enum, field)
		} else if t, err = p.token(); err == nil {
			err = p.skip(t)
		}
		if err != nil {
			return err
		}
	}
	_, err := p.token() // the closing brace
	return err
}

// skip reads what is left of a value whose first token was t.
func (p *parser) skip(t json.Token) error {
	depth := 0
	for {
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if t, err = p.token(); err != nil {
			return err
		}
	}
}

// set sets a field from a token and says what is wrong with it, or nothing.
func set(into reflect.Value, enum string, t json.Token) string {
	switch {
	case into.Type() == durationType:
		text, ok := t.(string)
		if !ok {
			return `must be a duration in quotes, such as "5s"`
		}
		d, err := parseDuration(text)
		if err != nil {
			return err.Error()
		}
		into.SetInt(int64(d))
	case into.Kind() == reflect.Float64:
		number, ok := t.(json.Number)
		v, err := strconv.ParseFloat(string(number), 64)
		if !ok || err != nil || v <= 0 {
			return "must be a number above 0"
		}
		into.SetFloat(v)
	case into.Kind() == reflect.String:
		text, ok := t.(string)
		allowed := strings.Split(enum, ",")
		if !ok || !slices.Contains(allowed, text) {
			return "must be one of " + strings.Join(allowed, ", ")
		}
		into.SetString(text)
	default:
		return "must be an object"
	}
	return ""
}

// ParseDuration reads whole days as "30d", none below 0, and what time.ParseDuration
// reads. An error says what a duration looks like.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int64
		if n, err = strconv.ParseInt(days, 10, 64); n > math.MaxInt64/int64(24*time.Hour) || n < 0 {
			err = strconv.ErrRange
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 20ms, 5s, 10m, 24h or 30d", text)
	}
	return d, nil
}

// parseDuration reads "forever" and what ParseDuration reads, if it is positive.
func parseDuration(text string) (time.Duration, error) {
	if text == "forever" {
		return deadline.Forever, nil
	}
	d, err := ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf(`is %q; must be a duration such as "20ms", "5s", "24h", "30d" or "forever"`, text)
	case d <= 0:
		return 0, fmt.Errorf("is %q; must be positive: leave the member out for what is not stated or has a default", text)
	}
	return d, nil
}

// fieldOf finds the field of a member.
func fieldOf(in reflect.Value, name string) (field reflect.Value, enum string, ok bool) {
	for i := range in.NumField() {
		if f := in.Type().Field(i); f.Tag.Get("json") == name {
			return in.Field(i), f.Tag.Get("enum"), true
		}
	}
	return reflect.Value{}, "", false
}

func names(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		out = append(out, t.Field(i).Tag.Get("json"))
	}
	return out
}

// suggestion names the member that was meant: one of the same object that is spelled
// almost so, or one of that name elsewhere, or else all that are allowed.
func suggestion(path, name string, in reflect.Type) string {
	here := names(in)
	nearest := slices.MinFunc(here, func(a, b string) int { return cmp.Compare(distance(name, a), distance(name, b)) })
	if distance(name, nearest) <= 1+len(nearest)/4 {
		return "did you mean " + strings.TrimPrefix(path+"."+nearest, ".") + "?"
	}
	root := reflect.TypeFor[Config]()
	for i := range root.NumField() {
		section := root.Field(i).Type
		if section.Kind() == reflect.Pointer {
			section = section.Elem()
		}
		if slices.Contains(names(section), name) {
			return "did you mean " + root.Field(i).Tag.Get("json") + "." + name + "?"
		}
	}
	return "allowed here: " + strings.Join(here, ", ")
}

// distance is spelling.Distance; what differs much in length is far without being
// counted, since a file may hold a word of any length.
func distance(a, b string) int {
	if diff := len(a) - len(b); diff > 8 || diff < -8 {
		return 9
	}
	return spelling.Distance(a, b)
}

// wrong is a value that no setting can have.
type wrong struct{ formula, numbers string }

// invalid finds the values of a Config made in Go that Parse would not have let through.
func invalid(c Config) []wrong {
	var out []wrong
	root := reflect.ValueOf(c)
	for i := range root.NumField() {
		section := root.Field(i)
		if section.Kind() == reflect.Pointer {
			if section.IsNil() {
				continue
			}
			section = section.Elem()
		}
		for j := range section.NumField() {
			f, v := section.Type().Field(j), section.Field(j)
			member := root.Type().Field(i).Tag.Get("json") + "." + f.Tag.Get("json")
			switch {
			case v.Kind() == reflect.String && v.String() != "" && !slices.Contains(strings.Split(f.Tag.Get("enum"), ","), v.String()):
				out = append(out, wrong{member + " is one of " + f.Tag.Get("enum"), strconv.Quote(v.String())})
			case v.Type() == durationType && v.Int() < 0:
				out = append(out, wrong{member + " > 0", time.Duration(v.Int()).String()})
			case v.Kind() == reflect.Float64 && !(v.Float() >= 0 && v.Float() <= math.MaxFloat64):
				out = append(out, wrong{member + " > 0", decimal(v.Float())})
			}
		}
	}
	return out
}
