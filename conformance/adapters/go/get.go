package harness

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Get returns the JSON value of a struct of the library. The struct must be addressable. A *Skipped
// says that the library has lost the order of what there was.
func (l *Layout) Get(from reflect.Value, version int16) (value map[string]any, err error) {
	defer func() {
		if lost, ok := recover().(*Skipped); ok {
			value, err = nil, lost
		}
	}()
	return l.get(from, version), nil
}

func (l *Layout) get(from reflect.Value, version int16) map[string]any {
	out := make(map[string]any, len(l.Fields))
	for i := range l.Fields {
		f := &l.Fields[i]
		if f.index == nil || !f.versions.Has(version) {
			continue
		}
		held := at(from, f.index)
		if f.typeName == "records" && !isBytes(held.Type()) {
			panic(&Skipped{l.binder.Short + " reads the records, and does not keep their bytes"})
		}
		value := f.get(held, version)
		if !f.tagged.Has(version) || !f.isAbsent(value, version) {
			out[f.Name] = value
		}
	}
	if l.tags != nil {
		var unknown []any
		l.binder.Tags.Each(at(from, l.tags).Addr().Interface(), func(tag uint32, data []byte) {
			unknown = append(unknown, map[string]any{"tag": tag, "hex": hex.EncodeToString(data)})
		})
		if unknown != nil {
			out[unknownTags] = unknown
		}
	}
	return out
}

// entries is the array that the library keeps as a map.
func (l *Layout) entries(from reflect.Value, version int16) []any {
	if from.Len() > 1 {
		panic(&Skipped{l.binder.Short + " keeps an array in a map, without its order"})
	}
	out := make([]any, 0, from.Len())
	for _, key := range from.MapKeys() {
		// What is in a map has no address.
		held := reflect.New(l.GoType.Elem()).Elem()
		held.Set(from.MapIndex(key))
		entry := make(map[string]any)
		if l.rest != nil {
			if held.Kind() == reflect.Pointer {
				held = held.Elem()
			}
			if held.IsValid() {
				entry = l.rest.get(held, version)
			}
		}
		for i := range l.Fields {
			f := &l.Fields[i]
			switch {
			case !f.versions.Has(version):
			case i == 0:
				entry[f.Name] = f.get(key, version)
			case f.index != nil:
				entry[f.Name] = f.get(held, version)
			}
		}
		out = append(out, entry)
	}
	return out
}

func (f *Field) isAbsent(value any, version int16) bool {
	if value == nil && !f.nullable.Has(version) {
		return true
	}
	if f.byTag {
		return reflect.DeepEqual(value, f.absent)
	}
	return f.inner != nil && reflect.DeepEqual(value, f.inner.absent(version))
}

// absent is a struct with every field at its default.
func (l *Layout) absent(version int16) map[string]any {
	out := make(map[string]any)
	for i := range l.Fields {
		f := &l.Fields[i]
		switch {
		case !f.versions.Has(version) || f.tagged.Has(version):
		case f.byTag:
			out[f.Name] = f.absent
		case f.inner != nil:
			out[f.Name] = f.inner.absent(version)
		}
	}
	return out
}

func (f *Field) get(from reflect.Value, version int16) any {
	if from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return nil
		}
		from = from.Elem()
	}
	isList := from.Kind() == reflect.Slice || from.Kind() == reflect.Map
	if isList && from.IsNil() && f.nullable.Has(version) {
		return nil
	}
	if !f.array {
		return f.getOne(from, version)
	}
	if from.Kind() == reflect.Map {
		return f.inner.entries(from, version)
	}
	out := make([]any, from.Len())
	for i := range out {
		out[i] = f.getOne(from.Index(i), version)
	}
	return out
}

func (f *Field) getOne(from reflect.Value, version int16) any {
	if from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return nil
		}
		from = from.Elem()
	}
	switch {
	case f.inner != nil:
		return f.inner.get(from, version)
	case f.typeName == "uuid":
		return encodeUUID(from.Convert(reflect.TypeFor[[16]byte]()).Interface().([16]byte))
	case from.Kind() == reflect.Slice:
		return base64.StdEncoding.EncodeToString(from.Bytes())
	case from.Type() == durationType:
		return from.Int() / int64(time.Millisecond)
	case from.Type() == timeType:
		return Millis(from.Interface().(time.Time))
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
