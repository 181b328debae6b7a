package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The key of the unknown tagged fields of a struct.
const unknownTags = "_unknownTaggedFields"

var (
	byOwnField = &skipped{"kmsg goes by the version that stands in the message"}
	byMap      = &skipped{"kmsg keeps unknown tagged fields in a map, each once"}
)

// codec is what all structs of kmsg can do.
type codec interface {
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
}

func (m *message) new(version int16) reflect.Value {
	made := reflect.ValueOf(m.make())
	if defaults, ok := made.Interface().(interface{ Default() }); ok {
		defaults.Default()
	}
	if number := made.Elem().FieldByName("Version"); number.IsValid() {
		number.SetInt(int64(version))
	}
	return made
}

func (m *message) encode(version int16, text json.RawMessage) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	made := m.new(version)
	if err := m.layout.set(made.Elem(), version, value, ""); err != nil {
		return nil, err
	}
	if m.within && made.Elem().FieldByName("Version").Int() != int64(version) {
		return nil, byOwnField
	}
	written := made.Interface().(codec).AppendTo(nil)
	if m.prefix {
		written = written[2:]
	}
	return written, nil
}

func (m *message) decode(version int16, data []byte) (map[string]any, error) {
	if m.prefix {
		data = append(binary.BigEndian.AppendUint16(nil, uint16(version)), data...)
	}
	if m.within && len(data) >= 2 && binary.BigEndian.Uint16(data) != uint16(version) {
		return nil, byOwnField
	}
	made := m.new(version)
	if err := made.Interface().(codec).ReadFrom(data); err != nil {
		return nil, &refusal{Class: "refused", Detail: err.Error()}
	}
	return m.layout.get(made.Elem(), version), nil
}

func wrong(class, path, format string, arguments ...any) error {
	return &refusal{Class: class, Path: path, Detail: fmt.Sprintf(format, arguments...)}
}

func (l *layout) set(to reflect.Value, version int16, value any, path string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return wrong("wrong_type", path, "a struct is an object, not %T", value)
	}
	if path != "" {
		path += "."
	}
	for i := range l.fields {
		f := &l.fields[i]
		given, ok := object[f.name]
		switch {
		case ok && f.index >= 0: // What a version lacks is given, too: kmsg is to judge it.
			if err := f.set(to.Field(f.index), version, given, path+f.name); err != nil {
				return err
			}
		case !ok && f.versions.has(version) && !f.tagged.has(version):
			return wrong("missing_field", path+f.name, "there is no %s", f.name)
		}
	}
	unknown, _ := object[unknownTags].([]any)
	if len(unknown) > 0 && l.tags < 0 {
		return &skipped{"kmsg keeps no unknown tagged fields of " + l.goType.Name()}
	}
	before := int64(-1)
	for _, entry := range unknown {
		pair := entry.(map[string]any)
		number, err := strconv.ParseUint(string(pair["tag"].(json.Number)), 10, 32)
		if err != nil {
			return wrong("integer_out_of_range", path+unknownTags, "%v", err)
		}
		if int64(number) <= before {
			return byMap
		}
		before = int64(number)
		data, err := hex.DecodeString(pair["hex"].(string))
		if err != nil {
			return wrong("wrong_type", path+unknownTags, "%v", err)
		}
		to.Field(l.tags).Addr().Interface().(*kmsg.Tags).Set(uint32(number), data)
	}
	return nil
}

func (f *field) set(to reflect.Value, version int16, value any, path string) error {
	switch {
	case value == nil && to.Kind() != reflect.Pointer && to.Kind() != reflect.Slice:
		return wrong("null_for_non_nullable", path, "kmsg holds no null in %s", to.Type())
	case value == nil && f.versions.has(version) && !f.nullable.has(version):
		// A slice of kmsg is the same where it is nil and where it is empty.
		return wrong("null_for_non_nullable", path, "there is no null in version %d", version)
	case value == nil:
		to.SetZero()
		return nil
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	if !f.array {
		return f.setOne(to, version, value, path)
	}
	list, ok := value.([]any)
	if !ok {
		return wrong("wrong_type", path, "an array is a list, not %T", value)
	}
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
	for i, element := range list {
		where := fmt.Sprintf("%s[%d]", path, i)
		if element == nil {
			return wrong("null_for_non_nullable", where, "an element is not null")
		}
		if err := f.setOne(to.Index(i), version, element, where); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) setOne(to reflect.Value, version int16, value any, path string) error {
	if f.inner != nil {
		if defaults, ok := to.Addr().Interface().(interface{ Default() }); ok {
			defaults.Default()
		}
		return f.inner.set(to, version, value, path)
	}
	switch given := value.(type) {
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(given)
			return nil
		}
	case json.Number:
		return f.setNumber(to, string(given), path)
	case string:
		return f.setText(to, given, path)
	}
	return wrong("wrong_type", path, "%T is no %s", value, f.typeName)
}

func (f *field) setNumber(to reflect.Value, text, path string) error {
	bits := int(to.Type().Size()) * 8
	var err error
	switch {
	case to.CanFloat():
		var number float64
		if number, err = strconv.ParseFloat(text, 64); err == nil {
			to.SetFloat(number)
		}
	case strings.ContainsAny(text, ".eE") || !(to.CanInt() || to.CanUint()):
		return wrong("wrong_type", path, "%s is no %s", text, f.typeName)
	case to.CanInt():
		var number int64
		if number, err = strconv.ParseInt(text, 10, bits); err == nil {
			to.SetInt(number)
		}
	default:
		var number uint64
		if number, err = strconv.ParseUint(text, 10, bits); err == nil {
			to.SetUint(number)
		}
	}
	if err != nil {
		return wrong("integer_out_of_range", path, "%v", err)
	}
	return nil
}

func (f *field) setText(to reflect.Value, text, path string) error {
	switch {
	case f.typeName == "string" && to.Kind() == reflect.String:
		to.SetString(text)
		return nil
	case f.typeName == "float64" && strings.HasPrefix(text, "0x"):
		if pattern, err := strconv.ParseUint(text[2:], 16, 64); err == nil {
			to.SetFloat(math.Float64frombits(pattern))
			return nil
		}
	case f.typeName == "uuid":
		if data, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(data) == 16 {
			reflect.Copy(to, reflect.ValueOf(data))
			return nil
		}
	case f.typeName == "bytes" || f.typeName == "records":
		if data, err := base64.StdEncoding.DecodeString(text); err == nil {
			to.SetBytes(data)
			return nil
		}
	}
	return wrong("wrong_type", path, "%.40q is no %s", text, f.typeName)
}

func (l *layout) get(from reflect.Value, version int16) map[string]any {
	out := make(map[string]any, len(l.fields))
	for i := range l.fields {
		f := &l.fields[i]
		if !f.versions.has(version) {
			continue
		}
		value := f.get(from.Field(f.index), version)
		if !f.tagged.has(version) || !f.isAbsent(value, version) {
			out[f.name] = value
		}
	}
	if l.tags >= 0 {
		var unknown []any
		tags := from.Field(l.tags).Addr().Interface().(*kmsg.Tags)
		tags.Each(func(tag uint32, data []byte) {
			unknown = append(unknown, map[string]any{"tag": tag, "hex": hex.EncodeToString(data)})
		})
		if unknown != nil {
			out[unknownTags] = unknown
		}
	}
	return out
}

func (f *field) isAbsent(value any, version int16) bool {
	if f.byTag {
		return reflect.DeepEqual(value, f.absent)
	}
	return reflect.DeepEqual(value, f.inner.absent(version))
}

// absent is a struct with every field at its default.
func (l *layout) absent(version int16) map[string]any {
	out := make(map[string]any)
	for i := range l.fields {
		f := &l.fields[i]
		switch {
		case !f.versions.has(version) || f.tagged.has(version):
		case f.byTag:
			out[f.name] = f.absent
		default:
			out[f.name] = f.inner.absent(version)
		}
	}
	return out
}

func (f *field) get(from reflect.Value, version int16) any {
	if from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return nil
		}
		from = from.Elem()
	}
	if from.Kind() == reflect.Slice && from.IsNil() && f.nullable.has(version) {
		return nil
	}
	if !f.array {
		return f.getOne(from, version)
	}
	out := make([]any, from.Len())
	for i := range out {
		out[i] = f.getOne(from.Index(i), version)
	}
	return out
}

func (f *field) getOne(from reflect.Value, version int16) any {
	switch {
	case f.inner != nil:
		return f.inner.get(from, version)
	case f.typeName == "uuid":
		return encodeUUID(from.Interface().([16]byte))
	case from.Kind() == reflect.Slice:
		return base64.StdEncoding.EncodeToString(from.Bytes())
	case from.CanInt():
		return from.Int()
	case from.CanUint():
		return int64(from.Uint()) // No field of Kafka is a uint64.
	case from.CanFloat():
		return encodeFloat(from.Float())
	}
	if from.Kind() == reflect.String {
		return validText(from.String())
	}
	return from.Bool()
}

// validText is a string as JSON can hold it: kmsg hands out whatever bytes there were. As Unicode
// recommends, and Java does, each longest beginning of a sequence that is none becomes one U+FFFD;
// to Java half of a surrogate pair, in three bytes from 0xed 0xa0 on, is one as well.
func validText(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		letter, size := utf8.DecodeRuneInString(text)
		if letter == utf8.RuneError && size == 1 {
			for size < len(text) && !utf8.FullRuneInString(text[:size+1]) {
				size++
			}
			if len(text) > 2 && text[0] == 0xed && text[1]&0xe0 == 0xa0 && text[2]&0xc0 == 0x80 {
				size = 3
			}
		}
		out.WriteRune(letter)
		text = text[size:]
	}
	return out.String()
}

func encodeUUID(data [16]byte) string { return base64.RawURLEncoding.EncodeToString(data[:]) }

// encodeFloat writes a number that JSON readers take for a float: 1.0, not 1.
func encodeFloat(number float64) any {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return fmt.Sprintf("0x%016x", math.Float64bits(number))
	}
	text := strconv.FormatFloat(number, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return json.RawMessage(text)
}
